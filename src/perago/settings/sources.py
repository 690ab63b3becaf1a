"""The places that Perago itself is configured in: `PERAGO_*` variables and files of a project."""

from __future__ import annotations

import difflib
import tomllib
from collections.abc import Collection, Mapping
from pathlib import Path

from perago.domain.errors import SettingsError

_PROJECT_FILE = "perago.toml"
_PYPROJECT = "pyproject.toml"
_PYPROJECT_TABLE = "pyproject.toml [tool.perago]"
PROJECT_SOURCES = frozenset({_PROJECT_FILE, _PYPROJECT_TABLE})
"""The sources that come with a project: whoever wrote it need not be who runs it."""

_SEE_ALL = "see docs/reference/settings.md"
_NO_SETTINGS = frozenset(
    {
        "PERAGO_DEBUG",  # must work when the settings are what is broken
        "PERAGO_REQUIRE_ALL",  # of Perago's own tests
    }
)
"""Variables with our prefix that configure nothing here."""

RawValue = object
"""A value as a source gave it: text from the environment, any TOML type from a file."""

Layer = dict[str, tuple[RawValue, str]]
"""Values with their sources, by setting."""


def read_environment(
    environment: Mapping[str, str], prefix: str, settings: Collection[str]
) -> Layer:
    """The settings in the environment; an unknown one is refused.

    An empty variable is an unset one, as in most tools.
    """
    variables = {name: prefix + name.upper() for name in settings}
    known = _NO_SETTINGS.union(variables.values())
    for variable, text in environment.items():
        if text and variable.startswith(prefix) and variable not in known:
            meant = _find_close(variable.removeprefix(prefix).lower(), settings)
            raise SettingsError(
                f"unknown variable {variable}",
                hint=f"did you mean {variables[meant]}?" if meant else _SEE_ALL,
            )
    return {
        name: (value, variable)
        for name, variable in variables.items()
        if (value := environment.get(variable))
    }


def read_files(directory: Path, settings: Collection[str]) -> Layer:
    """The settings in the project's file; an unknown one is refused."""
    project, pyproject = directory / _PROJECT_FILE, directory / _PYPROJECT
    if project.is_file():
        table, source = _read_toml(project), _PROJECT_FILE
    elif pyproject.is_file():
        tool = _read_toml(pyproject).get("tool")
        section = tool.get("perago") if isinstance(tool, dict) else None
        table, source = section if isinstance(section, dict) else {}, _PYPROJECT_TABLE
    else:
        return {}
    for name in table:
        if name not in settings:
            meant = _find_close(name, settings)
            raise SettingsError(
                f"unknown setting {name!r} in {source}",
                hint=f"did you mean {meant!r}?" if meant else _SEE_ALL,
            )
    return {name: (value, source) for name, value in table.items()}


def _find_close(name: str, settings: Collection[str]) -> str | None:
    """What was likely meant, if anything comes close."""
    return next(iter(difflib.get_close_matches(name, settings, n=1)), None)


def _read_toml(path: Path) -> dict[str, RawValue]:
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise SettingsError(f"cannot read {path.name}: {error}", hint="repair the file") from error
