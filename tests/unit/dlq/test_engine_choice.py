"""The engine for a verb: by the size of what it reads, or as somebody chooses."""

import sys
from collections.abc import Iterator
from types import SimpleNamespace

import pytest

from dlq.cli import engines
from dlq.cli.engines import engine_for
from dlq.cli.verb import ENGINE
from dlq.errors import InputError
from dlq.inspect.sizes import Size

MIB = 1024 * 1024
FITS = Size(10_000, 256 * MIB)
TOO_MANY = Size(10_001, 0)
TOO_LARGE = Size(18, 300 * MIB)


@pytest.fixture
def spark_is_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    started = SimpleNamespace(start=lambda: SimpleNamespace(name="spark"))
    monkeypatch.setitem(sys.modules, "spark_reprocess.command_line", started)


@pytest.fixture
def spark_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(engines, "find_spec", lambda _: None)


@pytest.fixture
def chosen(request: pytest.FixtureRequest) -> Iterator[None]:
    token = ENGINE.set(request.param)
    yield
    ENGINE.reset(token)


@pytest.mark.usefixtures("spark_is_installed")
@pytest.mark.parametrize(
    ("size", "name"), [(Size(0, 0), "local"), (FITS, "local"), (TOO_MANY, "spark")]
)
def test_the_size_of_what_is_read_chooses(size: Size, name: str) -> None:
    assert engine_for("redrive", lambda: size).name == name


@pytest.mark.usefixtures("spark_is_installed")
def test_spark_is_said_where_nobody_asked_for_it(capsys: pytest.CaptureFixture[str]) -> None:
    assert engine_for("collect", lambda: TOO_LARGE).name == "spark"

    note = capsys.readouterr().err
    assert "collect reads 300 MiB of bodies, and by default this machine reads 256" in note
    assert "so Spark does it, and --engine local would do it here" in note


@pytest.mark.usefixtures("spark_is_missing", "chosen")
@pytest.mark.parametrize("chosen", ["local"], indirect=True)
def test_whoever_says_local_gets_it_at_any_size() -> None:
    def size() -> Size:
        pytest.fail("the size is asked for")

    assert engine_for("collect", size).name == "local"


@pytest.mark.usefixtures("spark_is_installed", "chosen")
@pytest.mark.parametrize("chosen", ["spark"], indirect=True)
def test_whoever_says_spark_gets_it_for_one_message() -> None:
    assert engine_for("collect", lambda: Size(1, 1)).name == "spark"


@pytest.mark.usefixtures("spark_is_missing")
def test_what_is_too_large_here_is_refused_with_both_ways_on() -> None:
    with pytest.raises(InputError) as refused:
        engine_for("redrive", lambda: TOO_MANY)

    sentence = str(refused.value)
    assert "redrive reads 10,001 messages, and by default this machine reads 10,000" in sentence
    assert "nothing was done" in sentence
    assert "--engine local" in sentence
    assert "pip install" in sentence


@pytest.mark.usefixtures("spark_is_missing", "chosen")
@pytest.mark.parametrize("chosen", ["spark"], indirect=True)
def test_spark_that_is_not_installed_is_named_with_the_command_that_installs_it() -> None:
    with pytest.raises(InputError, match=r"redrive needs Spark: .*pip install .*Java 17"):
        engine_for("redrive", lambda: FITS)
