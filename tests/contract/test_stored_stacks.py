import yaml

from tests.contract.stored_stacks import FILE, stacks


def test_the_template_makes_the_stacks_that_are_stored() -> None:
    """After a change that is meant: ``make snapshot``, and read how the file differs."""
    stored = yaml.load(FILE.read_text("utf-8"), Loader=yaml.CSafeLoader)

    assert stacks() == stored
