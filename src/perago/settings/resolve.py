"""Puts the sources together, each value with the place it came from."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from pydantic import ValidationError

from perago.domain.errors import SettingsError
from perago.settings.conductor import URL, read_conductor_variables
from perago.settings.lakectl import ENDPOINT, read_lakectl
from perago.settings.model import ENVIRONMENT_PREFIX, Settings
from perago.settings.sources import PROJECT_SOURCES, Layer, RawValue, read_environment, read_files

_CACHE_VARIABLE = "XDG_CACHE_HOME"


@dataclass(frozen=True, slots=True, kw_only=True)
class ResolvedSettings:
    """Settings with the source of each value, for `perago check` and for errors."""

    settings: Settings
    sources: Mapping[str, str] = field(default_factory=dict)


def resolve_settings(
    *,
    flags: Mapping[str, RawValue] | None = None,
    environment: Mapping[str, str] | None = None,
    directory: Path | None = None,
) -> ResolvedSettings:
    """Read every source once. A flag that is None was not given."""
    env = os.environ if environment is None else environment
    known = Settings.model_fields
    given: Layer = {
        **_read_conventions(env),
        **read_files(directory or Path.cwd(), known),
        **read_environment(env, ENVIRONMENT_PREFIX, known),
        **{
            name: (value, f"flag --{name.replace('_', '-')}")
            for name, value in (flags or {}).items()
            if value is not None
        },
    }
    # What lakectl has never leads anybody away from the embedded store.
    if "store" not in given and ENDPOINT in given:
        given["store"] = ("lakefs", f"{ENDPOINT} is set")
    if "store" in given and given["store"][0] == "lakefs":
        values = {name: value for name, (value, _) in given.items()}
        given |= read_lakectl(values, env, project_file=_project_file_of(ENDPOINT, given))
    if given.get("orchestrator", ("conductor",))[0] == "conductor":
        values = {name: value for name, (value, _) in given.items()}
        given |= read_conductor_variables(values, env, project_file=_project_file_of(URL, given))
        if "orchestrator" not in given and URL in given:
            given["orchestrator"] = ("conductor", f"{given[URL][1]} is set")
    sources = {name: source for name, (_, source) in given.items()}
    try:
        settings = Settings.model_validate({name: value for name, (value, _) in given.items()})
    except ValidationError as error:
        raise _explain(error, sources) from error
    return ResolvedSettings(
        settings=settings, sources={name: sources.get(name, "default") for name in known}
    )


def _project_file_of(name: str, given: Layer) -> str | None:
    """The project's file that a value is from; None where somebody else gave it."""
    source = given[name][1] if name in given else None
    return source if source in PROJECT_SOURCES else None


def _read_conventions(environment: Mapping[str, str]) -> Layer:
    """Defaults that the system's own conventions move. The XDG rules ignore a relative path."""
    caches = environment.get(_CACHE_VARIABLE, "")
    if not Path(caches).is_absolute():
        return {}
    return {"cache_directory": (Path(caches) / "perago", _CACHE_VARIABLE)}


def _explain(error: ValidationError, sources: Mapping[str, str]) -> SettingsError:
    """Name every bad setting and its source; values are left out, they may be secret."""
    lines = []
    for problem in error.errors(include_url=False, include_input=False):
        name = str(problem["loc"][0]) if problem["loc"] else "?"
        said = problem["msg"].removeprefix("Value error, ")  # our own words, and pydantic's before
        lines.append(f"{name} (from {sources.get(name, 'default')}): {said}")
    return SettingsError(
        "bad settings: " + "; ".join(lines), hint="see docs/reference/settings.md for each setting"
    )
