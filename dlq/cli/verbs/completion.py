"""``completion``: a script that completes commands in a shell."""

import argparse

from dlq.cli.terminal import print_line
from dlq.cli.verb import DONE, Verb

_ABOUT = """\
Prints a script that completes verbs, options, files, the groups of the newest report of an archive
on this machine, and the stacks that dlq status has listed. It asks nothing of AWS.

  dlq completion bash > ~/.local/share/bash-completion/completions/dlq
  dlq completion zsh > ~/.zfunc/_dlq       with fpath=(~/.zfunc $fpath) before compinit"""

_SHELL_FUNCTIONS = {
    "bash": """\
_dlq_candidates() {
  compgen -W "$(command dlq --candidates "$1" "${COMP_WORDS[@]}" 2>/dev/null)" -- "$2"
}
_dlq_groups() { _dlq_candidates groups "$1"; }
_dlq_stacks() { _dlq_candidates stacks "$1"; }""",
    "zsh": """\
_dlq_candidates() {
  local -a candidates
  candidates=(${(f)"$(command dlq --candidates $1 "${words[@]}" 2>/dev/null)"})
  compadd -a candidates
}
_dlq_groups() { _dlq_candidates groups }
_dlq_stacks() { _dlq_candidates stacks }""",
}
"""Functions of a completion script, by shell; see ``candidates``."""


def complete_values(parser: argparse.ArgumentParser) -> None:
    """Let the values of a verb's arguments be completed."""
    import shtab

    groups = dict.fromkeys(_SHELL_FUNCTIONS, "_dlq_groups")
    stacks = dict.fromkeys(_SHELL_FUNCTIONS, "_dlq_stacks")
    kinds = {
        "group_id": groups,
        "group": groups,
        # Of show, whose other ids are too many.
        "message_id": groups,
        "stack": stacks,
        "archive": shtab.DIRECTORY,
        "out": shtab.FILE,
        "plan": shtab.FILE,
        "policy": shtab.FILE,
        "edit": shtab.FILE,
    }
    for action in parser._actions:  # noqa: SLF001 - argparse has no other list
        if action.dest in kinds:
            action.complete = kinds[action.dest]  # type: ignore[attr-defined]


def _add_shell(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("shell", choices=tuple(_SHELL_FUNCTIONS), help="the shell")


def _print_completion(options: argparse.Namespace) -> int:
    import shtab

    preamble = _SHELL_FUNCTIONS[options.shell]
    print_line(shtab.complete(options.parser, shell=options.shell, preamble=preamble))
    return DONE


VERB = Verb(
    about=_ABOUT,
    add_arguments=_add_shell,
    make_options=argparse.Namespace,
    run=_print_completion,
    has_json=False,
)
