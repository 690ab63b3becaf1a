"""Flags, environment and files -> one frozen `Settings`, read once.

Order of precedence: flag > environment (`PERAGO_*`) > `perago.toml`, or `[tool.perago]` in
`pyproject.toml` > default. Every value remembers where it came from, and an error names that
place. Nothing else in Perago reads the environment for configuration.
"""

from __future__ import annotations

import difflib
import json
import os
import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator

from perago.domain.errors import SettingsError
from perago.domain.outcome import JsonObject
from perago.runtime.failpoints import parse_failpoints

ENVIRONMENT_PREFIX = "PERAGO_"
_PROJECT_FILE = "perago.toml"
_PYPROJECT = "pyproject.toml"

_SECRET = re.compile(r"secret|password|token|credential|\bkey$", re.IGNORECASE)
"""Which Spark settings hold secrets: by their names, as Spark itself does."""

RawValue = object
"""A value as a source gave it: text from the environment, any TOML type from a file."""


class Settings(BaseModel):
    """Everything that can be configured. Field descriptions are the reference documentation."""

    model_config = ConfigDict(frozen=True, extra="forbid", validate_default=True)

    home: Annotated[
        Path,
        Field(description="Where the embedded store, the embedded orchestrator and logs live."),
    ] = Path(".perago")
    workspace_root: Annotated[
        Path | None,
        Field(
            description="Where attempts get their local directories; `<home>/workspaces` unless "
            "set. One supervisor at a time."
        ),
    ] = None
    repository: Annotated[
        str, Field(description="The repository that `run` works on.", min_length=1)
    ] = "workspace"
    branch: Annotated[
        str, Field(description="The target branch that `run` advances.", min_length=1)
    ] = "main"
    executors: Annotated[
        int, Field(description="How many attempts run at a time, each in a process.", ge=1, le=256)
    ] = 1
    durability: Annotated[
        Literal["process", "power"],
        Field(
            description="`process`: a killed process loses nothing. `power`: nor does a power "
            "failure, at the price of an fsync per file."
        ),
    ] = "process"
    replace_unlabelled: Annotated[
        bool,
        Field(
            description="Whether a commit without Perago metadata on top of the input ref may be "
            "taken for an abandoned publication and replaced."
        ),
    ] = True
    executor_death_limit: Annotated[
        int,
        Field(description="How many executors one step may kill before it fails for good.", ge=1),
    ] = 3
    shutdown_grace_seconds: Annotated[
        float, Field(description="How long running attempts may go on after a stop signal.", ge=0)
    ] = 30.0
    spark_master: Annotated[
        str, Field(description="The Spark master; `local` takes this executor's share of cores.")
    ] = "local"
    spark_cores: Annotated[
        int | None, Field(description="Cores for all executors' Spark together.", ge=1)
    ] = None
    spark_memory_mb: Annotated[
        int | None, Field(description="Memory for all executors' Spark together, in MiB.", ge=512)
    ] = None
    spark_conf: Annotated[
        Mapping[str, str],
        Field(description="Further Spark settings; a table in a file, a JSON object in PERAGO_*."),
    ] = {}
    log_level: Annotated[
        Literal["DEBUG", "INFO", "WARNING", "ERROR"],
        Field(description="How much goes into the attempt logs."),
    ] = "INFO"
    failpoints: Annotated[
        str, Field(description="For tests: where to crash, pause or fail an attempt.")
    ] = ""

    @field_validator("home", "workspace_root")
    @classmethod
    def _make_absolute(cls, value: Path | None) -> Path | None:
        return None if value is None else value.expanduser().absolute()

    @field_validator("spark_conf", mode="before")
    @classmethod
    def _parse_conf(cls, value: object) -> object:
        parsed = json.loads(value) if isinstance(value, str) else value
        if not isinstance(parsed, Mapping):
            raise ValueError("expected a table of Spark settings")  # noqa: TRY004 - pydantic's protocol
        return {key: _conf_text(entry) for key, entry in parsed.items()}

    @field_validator("failpoints")
    @classmethod
    def _check_failpoints(cls, value: str) -> str:
        try:
            parse_failpoints(value)
        except SettingsError as error:
            raise ValueError(str(error)) from error
        return value

    def shown(self) -> JsonObject:
        """Every value as JSON for people, without what looks like a secret."""
        values: JsonObject = self.model_dump(mode="json")
        values["spark_conf"] = {
            key: "(not shown)" if _SECRET.search(key) else value
            for key, value in self.spark_conf.items()
        }
        return values

    @property
    def attempts_root(self) -> Path:
        """Where attempts get their local directories."""
        return self.workspace_root or self.home / "workspaces"

    @property
    def logs_directory(self) -> Path:
        """Where attempts and executors write their logs."""
        return self.home / "logs"


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
    values: dict[str, RawValue] = {}
    sources: dict[str, str] = {}
    given = {name: value for name, value in (flags or {}).items() if value is not None}
    for layer in (
        _read_files(directory or Path.cwd()),
        _read_environment(env),
        {name: (value, f"flag --{name.replace('_', '-')}") for name, value in given.items()},
    ):
        for name, (value, source) in layer.items():
            values[name] = value
            sources[name] = source
    try:
        settings = Settings.model_validate(values)
    except ValidationError as error:
        raise _explain(error, sources) from error
    return ResolvedSettings(
        settings=settings,
        sources={name: sources.get(name, "default") for name in Settings.model_fields},
    )


def _read_environment(environment: Mapping[str, str]) -> dict[str, tuple[RawValue, str]]:
    found: dict[str, tuple[RawValue, str]] = {}
    for name in Settings.model_fields:
        variable = ENVIRONMENT_PREFIX + name.upper()
        value = environment.get(variable)
        if value:  # an empty variable is an unset one, as in most tools
            found[name] = (value, variable)
    return found


def _read_files(directory: Path) -> dict[str, tuple[RawValue, str]]:
    project, pyproject = directory / _PROJECT_FILE, directory / _PYPROJECT
    if project.is_file():
        table, source = _read_toml(project), str(_PROJECT_FILE)
    elif pyproject.is_file():
        tool = _read_toml(pyproject).get("tool")
        section = tool.get("perago") if isinstance(tool, dict) else None
        table, source = section if isinstance(section, dict) else {}, "pyproject.toml [tool.perago]"
    else:
        return {}
    for name in table:
        if name not in Settings.model_fields:
            close = difflib.get_close_matches(name, Settings.model_fields, n=1)
            raise SettingsError(
                f"unknown setting {name!r} in {source}",
                hint=f"did you mean {close[0]!r}?" if close else "see docs/reference/settings.md",
            )
    return {name: (value, source) for name, value in table.items()}


def _read_toml(path: Path) -> dict[str, RawValue]:
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise SettingsError(f"cannot read {path.name}: {error}", hint="repair the file") from error


def _explain(error: ValidationError, sources: Mapping[str, str]) -> SettingsError:
    """Name every bad setting and its source; values are left out, they may be secret."""
    lines = []
    for problem in error.errors(include_url=False, include_input=False):
        name = str(problem["loc"][0]) if problem["loc"] else "?"
        lines.append(f"{name} (from {sources.get(name, 'default')}): {problem['msg']}")
    return SettingsError(
        "bad settings: " + "; ".join(lines), hint="see docs/reference/settings.md for each setting"
    )


def _conf_text(value: object) -> str:
    """Spark takes text: TOML and JSON booleans become Spark's own spelling."""
    return str(value).lower() if isinstance(value, bool) else str(value)
