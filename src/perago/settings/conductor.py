"""The settings of a Conductor server, and what people who use one have configured already.

Invariants: what the environment holds for one server is never sent to another that Perago was
given; and keys that name no server go to none that a project's file names.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Literal

from pydantic import BaseModel, Field, SecretStr, field_validator

from perago.domain.errors import SettingsError
from perago.settings.endpoint import normalise_conductor

URL = "conductor_url"
URL_VARIABLE = "CONDUCTOR_SERVER_URL"

_CREDENTIAL_VARIABLES = {
    "conductor_auth_key": "CONDUCTOR_AUTH_KEY",
    "conductor_auth_secret": "CONDUCTOR_AUTH_SECRET",
}
"""How Conductor's own SDKs call what these settings hold."""

SECRET_VARIABLES = frozenset({_CREDENTIAL_VARIABLES["conductor_auth_secret"]})


class ConductorSettings(BaseModel):
    """Where workflows run."""

    orchestrator: Annotated[
        Literal["embedded", "conductor"],
        Field(
            description="Who decides when a task runs: the one in the home, or a Conductor server. "
            "`conductor` by itself where `conductor_url` or CONDUCTOR_SERVER_URL is set."
        ),
    ] = "embedded"
    conductor_url: Annotated[
        str | None,
        Field(
            description="The Conductor server, with or without `/api`; CONDUCTOR_SERVER_URL unless "
            "set."
        ),
    ] = None
    conductor_auth_key: Annotated[
        str | None,
        Field(
            description="Who Perago is on a Conductor server that asks; CONDUCTOR_AUTH_KEY unless "
            "set.",
            min_length=1,
        ),
    ] = None
    conductor_auth_secret: Annotated[
        SecretStr | None,
        Field(
            description="The secret that goes with the key; CONDUCTOR_AUTH_SECRET unless set.",
            min_length=1,
        ),
    ] = None
    conductor_ca_file: Annotated[
        Path | None,
        Field(description="CA certificates to trust for the Conductor server, in PEM form."),
    ] = None
    conductor_timeout_seconds: Annotated[
        float, Field(description="The bound on every call to the Conductor server.", gt=0)
    ] = 10.0
    conductor_retry_seconds: Annotated[
        float,
        Field(
            description="How long a call that may be repeated is tried again after its first "
            "failure.",
            ge=0,
        ),
    ] = 30.0

    @field_validator("conductor_url")
    @classmethod
    def _normalise_url(cls, value: str | None) -> str | None:
        return None if value is None else normalise_conductor(value)


def read_conductor_variables(
    given: Mapping[str, object], environment: Mapping[str, str], *, project_file: str | None
) -> dict[str, tuple[str, str]]:
    """What is not given, as Conductor's own variables have it: value and source by setting.

    `project_file` is the project's file that gives the URL, if one does.
    """
    found: dict[str, tuple[str, str]] = {}
    here = environment.get(URL_VARIABLE)
    if here and URL not in given:
        found[URL] = (here, URL_VARIABLE)
    if here and URL in given and not _is_same(here, str(given[URL])):
        return {}
    for name, variable in _CREDENTIAL_VARIABLES.items():
        value = environment.get(variable)
        if value and name not in given:
            found[name] = (value, variable)
    if found and project_file is not None and not here:
        raise SettingsError(
            f"the Conductor server is the one that {project_file} names, and what "
            f"{' and '.join(source for _, source in found.values())} gives is not said to be for "
            "it",
            hint=f"if you trust that server, set {URL_VARIABLE} to it, or give Perago keys of its "
            "own: PERAGO_CONDUCTOR_AUTH_KEY and PERAGO_CONDUCTOR_AUTH_SECRET",
        )
    return found


def _is_same(one: str, other: str) -> bool:
    try:
        return normalise_conductor(one) == normalise_conductor(other)
    except ValueError:
        return False
