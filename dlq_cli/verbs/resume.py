"""``resume``: starts automatic replay again."""

import argparse

from dlq_cli.verbs.pause import run_switch
from spark_reprocess.command_line.verb import Verb, no_arguments

_ABOUT = """\
Turns on the trigger of the replay function, and waits until it is on. If the trigger is a pipe, the
event source mapping stays off."""

VERB = Verb(_ABOUT, no_arguments, argparse.Namespace, lambda options: run_switch(options, on=True))
