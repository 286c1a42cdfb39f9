"""Files of the user on this machine: the chosen stack, names of stacks, and figures of fleets.

The stack that ``dlq use`` chooses is in the user's folder of settings. In that of caches are the
names for completion, and the figures of each fleet for a minute. Both folders are those of the XDG
specification.
"""

import json
import os
import re
import tempfile
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any

from dlq.errors import InputError

FIGURES_SECONDS = 60
"""The time for which figures are kept."""

_VERSION = 1
_NAME = re.compile(r"[A-Za-z][A-Za-z0-9-]{0,127}|arn:[a-z-]+:cloudformation:[A-Za-z0-9:/-]+")
"""The name of a stack, or its id."""

_FIX = "`dlq use STACK` writes a new one, `dlq use --none` removes it, --stack NAME does without it"


@dataclass(frozen=True, slots=True)
class ChosenStack:
    """The stack of commands that name neither a stack nor an archive.

    Attributes:
        region: the stack's Region; None for that of the environment.
        profile: the AWS profile to ask with; None for that of the environment.
    """

    stack: str
    region: str | None = None
    profile: str | None = None

    def __post_init__(self) -> None:
        """Raise ValueError if a field has a value that no command may use."""
        if not _NAME.fullmatch(self.stack):
            raise ValueError(f"{self.stack!r}: is no name of a stack")
        for name, value in (("Region", self.region), ("profile", self.profile)):
            if value is not None and not (value and value.isprintable()):
                raise ValueError(f"{value!r}: is no {name}")


def described(stack: str, region: str | None, profile: str | None) -> str:
    """Format a stack, its Region and the profile for people."""
    parts = [f"stack {stack}"]
    if region:
        parts.append(f"Region {region}")
    if profile:
        parts.append(f"profile {profile}")
    return ", ".join(parts)


def chosen_stack_file(environment: Mapping[str, str]) -> Path:
    """Return the path of the file with the chosen stack. Raises InputError without a home."""
    return _folder(environment, "XDG_CONFIG_HOME", ".config") / "stack.json"


def _stack_names_file(environment: Mapping[str, str]) -> Path:
    return _folder(environment, "XDG_CACHE_HOME", ".cache") / "stacks.json"


def _folder(environment: Mapping[str, str], variable: str, default: str) -> Path:
    chosen = environment.get(variable, "")
    # The XDG specification: a relative path is invalid and must be ignored.
    if chosen.startswith("/"):
        return Path(chosen) / "dlq"
    try:
        return Path.home() / default / "dlq"
    except RuntimeError as error:
        raise InputError(f"this user has no home folder; set {variable}") from error


def read_chosen_stack(environment: Mapping[str, str]) -> ChosenStack | None:
    """Return the chosen stack; None if none is chosen.

    Raises:
        InputError: the file cannot be read, or has another content than ``choose_stack`` writes.
    """
    try:
        path = chosen_stack_file(environment)
    except InputError:
        # A service without a home never chose one.
        return None

    try:
        return _chosen_stack(path.read_bytes())
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        raise InputError(f"{path}: {error.strerror or error}; {_FIX}") from error
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise InputError(f"{path}: is no file of `dlq use`; {_FIX}") from error


def _chosen_stack(content: bytes) -> ChosenStack:
    """Read the content of the file; raise ValueError, or what other content makes of it."""
    fields = json.loads(content)
    if fields.pop("version") != _VERSION:
        raise ValueError("its version is not known")
    return ChosenStack(**fields)


def choose_stack(environment: Mapping[str, str], chosen: ChosenStack) -> None:
    """Write the chosen stack. Raises InputError."""
    path = chosen_stack_file(environment)
    try:
        _write(path, {"version": _VERSION, **asdict(chosen)})
    except OSError as error:
        raise InputError(f"{path}: cannot be written: {error.strerror or error}") from error


def forget_chosen_stack(environment: Mapping[str, str]) -> None:
    """Remove the file with the chosen stack, if there is one. Raises InputError."""
    path = chosen_stack_file(environment)
    try:
        path.unlink(missing_ok=True)
    except NotADirectoryError:
        return
    except OSError as error:
        raise InputError(f"{path}: cannot be removed: {error.strerror or error}") from error


def keep_stack_names(environment: Mapping[str, str], names: Iterable[str]) -> None:
    """Keep the names of the account's installations for completion, if that is possible."""
    with suppress(OSError, InputError):
        _write(_stack_names_file(environment), {"version": _VERSION, "stacks": list(names)})


def kept_stack_names(environment: Mapping[str, str]) -> list[str]:
    """Return the names that ``keep_stack_names`` kept; none where they cannot be read."""
    with suppress(OSError, InputError, ValueError, TypeError, KeyError):
        fields = json.loads(_stack_names_file(environment).read_bytes())
        if fields["version"] == _VERSION:
            return [name for name in map(str, fields["stacks"]) if _NAME.fullmatch(name)]
    return []


def keep_figures(
    environment: Mapping[str, str], fleet: str, at_seconds: int, figures: Mapping[str, int | None]
) -> None:
    """Keep what CloudWatch said of a fleet at a time, if that is possible.

    *fleet* is a text that no other fleet has.
    """
    with suppress(OSError, InputError):
        content = {"version": _VERSION, "at": at_seconds, "figures": dict(figures)}
        _write(_figures_file(environment, fleet), content)


def kept_figures(
    environment: Mapping[str, str], fleet: str, now_seconds: int
) -> tuple[int, dict[str, int | None]]:
    """Return when the figures of a fleet were read, and the figures.

    That is now, and none, where they are older than ``FIGURES_SECONDS`` or from the future, or
    cannot be read.
    """
    with suppress(OSError, InputError, ValueError, TypeError, KeyError):
        content = json.loads(_figures_file(environment, fleet).read_bytes())
        is_recent = 0 <= now_seconds - content["at"] < FIGURES_SECONDS
        if content["version"] == _VERSION and is_recent:
            figures = dict(content["figures"]).items()
            return int(content["at"]), {key: value for key, value in figures if _is_figure(value)}
    return now_seconds, {}


def _is_figure(value: object) -> bool:
    return value is None or isinstance(value, int)


def _figures_file(environment: Mapping[str, str], fleet: str) -> Path:
    digest = sha256(fleet.encode()).hexdigest()[:16]
    return _folder(environment, "XDG_CACHE_HOME", ".cache") / f"fleet-{digest}.json"


def _write(path: Path, fields: Mapping[str, Any]) -> None:
    """Write a file for its owner alone, in place of an older one: all of it, or nothing."""
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    # mkstemp makes files of mode 0600.
    descriptor, temporary = tempfile.mkstemp(prefix=".", dir=path.parent)
    try:
        with os.fdopen(descriptor, "w", encoding="utf-8") as file:
            json.dump(fields, file)
            file.write("\n")
            file.flush()
            os.fsync(file.fileno())
        Path(temporary).replace(path)
    except OSError:
        with suppress(OSError):
            Path(temporary).unlink()
        raise
