import yaml

from tests.contract.stored_stacks import FILE, stacks


def test_the_template_makes_the_stacks_that_are_stored() -> None:
    """After a change that is meant: ``python -m tests.contract.stored_stacks``, and read it."""
    stored = yaml.load(FILE.read_text("utf-8"), Loader=yaml.CSafeLoader)

    assert stacks() == stored
