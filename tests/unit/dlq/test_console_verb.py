"""The verb ``dlq console``: its archive, its address, and the files that it ships."""

import argparse
import os
import socket
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from urllib.parse import urlsplit

import pytest

from dlq.archive.storage.files import open_archive
from dlq.cli.verb import PLACE_WORDS
from dlq.cli.verbs import console as verb
from dlq.console import app
from dlq.console.security import Session
from dlq.console.site import assets
from dlq.errors import InputError
from tests.support.console_world import a_dead_letter, archive_with, console_of


def options_of(**changes: Any) -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    verb.VERB.add_arguments(parser)
    return argparse.Namespace(**{**vars(parser.parse_args([])), "stack": None, **changes})


def test_an_archive_is_enough(tmp_path: Path) -> None:
    console = verb.console_of(options_of(archive=str(tmp_path), masks=["body.name"]))

    assert console.archive.root == str(tmp_path)
    assert console.values == {}
    assert console.masks.hides("body.name")
    assert not console.is_unmasked


def test_the_environment_names_an_archive(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DLQ_ARCHIVE", str(tmp_path / "of environment"))

    of_environment = verb.console_of(options_of())
    of_option = verb.console_of(options_of(archive=str(tmp_path)))

    assert of_environment.archive.root == str(tmp_path / "of environment")
    assert of_option.archive.root == str(tmp_path)


@pytest.mark.parametrize("is_begun", [True, False])
def test_an_archive_that_does_not_exist_is_named(
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    *,
    is_begun: bool,
) -> None:
    place = str(tmp_path / "archive")
    if is_begun:
        open_archive(place, creates=True)
    monkeypatch.setattr(app, "make_server", lambda *_: SimpleNamespace(run=lambda sockets: sockets))

    assert verb.VERB.run(options_of(archive=place)) == 0

    note = f"note: archive {place}: nothing is archived there; the first Collect begins it\n"
    assert (note in capsys.readouterr().out) is not is_begun


def test_nobody_else_can_read_the_file_with_the_address() -> None:
    session = Session(port=1)
    modes: list[int] = []

    def look(address: str) -> None:
        file = Path(urlsplit(address).path)
        modes.append(file.stat().st_mode & 0o777)
        modes.append(file.parent.stat().st_mode & 0o777)
        session.is_open.set()

    umask = os.umask(0)
    try:
        verb.open_in_browser(session, look)
    finally:
        os.umask(umask)

    assert modes == [0o600, 0o700]


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({}, "give --stack NAME, or --archive PLACE"),
        ({"archive": "/x", "on_glue": True}, "--on-glue: give --stack"),
        ({"archive": "/x", "masks": ["("]}, "--mask .*no regular expression"),
        ({"archive": "ftp://x"}, "ftp"),
    ],
)
def test_what_it_cannot_work_on_is_named(changes: dict[str, Any], why: str) -> None:
    with pytest.raises(InputError, match=why):
        verb.console_of(options_of(**changes))


@pytest.mark.parametrize("mode", [0o720, 0o702, 0o750, 0o705])
def test_its_state_is_this_user_s_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, mode: int
) -> None:
    """Whoever writes there has commands that the console runs."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    options = options_of(archive=str(tmp_path))
    jobs = verb.console_of(options).jobs
    private = tmp_path / "state" / "dlq"
    private.mkdir(mode=0o700, parents=True)
    assert verb.console_of(options).jobs.folder == jobs.folder

    private.chmod(mode)
    with pytest.raises(InputError, match=f"{private}: others can use it"):
        verb.console_of(options)
    with pytest.raises(InputError, match="others can use it"):
        jobs.start(jobs.make_id(), ["status"])
    private.chmod(0o700)
    monkeypatch.setattr("os.geteuid", lambda: private.stat().st_uid + 1)
    with pytest.raises(InputError, match="others can use it"):
        verb.console_of(options)


def test_it_listens_on_the_loopback_interface_alone() -> None:
    with verb.listen(0) as listener:
        assert listener.getsockname()[0] == "127.0.0.1"
        port = listener.getsockname()[1]
        # Before the server runs: whoever opens the address at once is heard.
        with socket.create_connection(("127.0.0.1", port), 1):
            pass
        with pytest.raises(InputError, match=rf"--port {port}: .*in use; give another one"):
            verb.listen(port)


def test_a_command_is_quoted_as_a_shell_reads_it(tmp_path: Path) -> None:
    console = console_of(archive_with(tmp_path, [a_dead_letter(0)]))

    of_archive = console.command("decide", "g-1", "redrive", "--note", "it's back; rm -rf ~")
    of_stack = console_of(console.archive, stack="orders dlq").command("status")

    assert of_archive.startswith(f"dlq decide --archive {console.archive.root} g-1 redrive --note ")
    assert of_archive.endswith('"it\'s back; rm -rf ~"')
    assert of_stack == "dlq status --stack 'orders dlq'"


def test_its_commands_work_in_the_region_of_the_console(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DLQ_STACK", "another")
    token = PLACE_WORDS.set(("--region", "eu-west-1"))
    try:
        console = verb.console_of(options_of(archive=str(tmp_path)))
    finally:
        PLACE_WORDS.reset(token)

    place = f"--stack '' --region eu-west-1 --archive {tmp_path}"
    assert console.command("groups") == f"dlq groups {place}"
    assert console.words("collect")[1:4] == ["collect", "--stack", ""]


def test_nothing_is_loaded_from_elsewhere() -> None:
    for name, content in assets().items():
        for beginning in (b"http://", b"https://", b"//unpkg", b"@import", b"url(http"):
            places = content.split(beginning)[1:]
            # The name of a namespace, and where uPlot's comment says that it is from.
            allowed = (b"www.w3.org/", b"github.com/leeoniya/uPlot ")
            assert all(place.startswith(allowed) for place in places), (name, beginning)
