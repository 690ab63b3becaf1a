"""The home directory: where everything that Perago keeps on this machine lies."""

from __future__ import annotations

from pathlib import Path

from perago.domain.errors import EnvironmentUnfitError, UsageError
from perago.system.directories import make_own_directory, make_private_directories
from perago.system.state_files import write_state
from perago.system.tags import LOGS_TAG

_IGNORE_FILE = ".gitignore"
_PROBE = ".writable"


def make_home(home: Path) -> bool:
    """Create the home, for this user alone, unless it exists; say whether it was created.

    A home stands in a project by default, and a store does not belong into its Git history.
    """
    if home.is_dir():
        return False
    try:
        make_private_directories(home)
        (home / _IGNORE_FILE).write_text("*\n", encoding="ascii")
    except OSError as error:
        raise EnvironmentUnfitError(
            f"cannot create the home {home}: {error.strerror}",
            hint=f"{_repair(home)}, or choose another home (--home or PERAGO_HOME)",
        ) from error
    return True


def _repair(home: Path) -> str:
    """What to do about a directory that cannot be made."""
    in_the_way = next((path for path in (home, *home.parents) if path.is_file()), None)
    return "make its parent writable" if in_the_way is None else f"move the file {in_the_way} away"


def require_home(home: Path) -> None:
    """Raise where there is no home: a question about nothing was asked in the wrong place."""
    if not home.is_dir():
        raise UsageError(
            f"there is no Perago home at {home}",
            hint="change to the project's directory, or name the home (--home or PERAGO_HOME); "
            "`perago run` and `perago store init` make one",
        )


def make_logs_directory(logs: Path) -> None:
    """Make sure that attempts can write their logs: without one, no attempt runs.

    It is a directory of Perago's own, for old logs are deleted there.
    """
    try:
        with make_own_directory(logs, LOGS_TAG) as own:
            write_state(_PROBE, b"", directory=own.descriptor)
            own.remove_tree(_PROBE)
    except OSError as error:
        raise EnvironmentUnfitError(
            f"cannot write logs to {logs}: {error.strerror}",
            hint="make it writable, or choose another home (--home or PERAGO_HOME)",
        ) from error
