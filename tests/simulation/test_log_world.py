from tests.support.log_world import check_log_world


def test_reasons_are_found_in_logs_at_full_size() -> None:
    check_log_world(2000, seed=1)
