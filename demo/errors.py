"""What stops the demo, told in one sentence. Imports nothing."""


class DemoError(Exception):
    """The demo cannot go on; the text is what the viewer reads."""


class InputError(DemoError):
    """The command line or the input file is at fault: exit 2."""
