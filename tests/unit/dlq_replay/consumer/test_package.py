import subprocess
import sys


def loaded_by(statement: str) -> set[str]:
    code = f"import sys\n{statement}\nprint(' '.join(sys.modules))"
    printed = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        check=True,
        env={"PYTHONPATH": "layers/core"},
    )
    return set(printed.stdout.split())


def test_core_never_loads_the_kit() -> None:
    loaded = loaded_by("import dlq_replay.replaying.replay, dlq_replay.settings")

    assert not {name for name in loaded if name.startswith("dlq_replay.consumer")}


def test_heartbeat_and_identity_need_the_standard_library_alone() -> None:
    loaded = loaded_by("import dlq_replay.consumer.heartbeat, dlq_replay.consumer.identity")

    assert not loaded & {"boto3", "botocore", "aws_lambda_powertools"}
