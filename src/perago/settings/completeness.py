"""What must be set before anything runs."""

from __future__ import annotations

import ssl
from pathlib import Path

from perago.domain.errors import SettingsError
from perago.settings.conductor import URL, URL_VARIABLE
from perago.settings.lakectl import LAKECTL_NAMES
from perago.settings.model import ENVIRONMENT_PREFIX, Settings


def require_complete(settings: Settings) -> None:
    """Raise one `SettingsError` that names everything the chosen store and orchestrator lack."""
    missing = [*_missing_for_store(settings), *_missing_for_orchestrator(settings)]
    if missing:
        raise SettingsError(
            "more settings are needed: " + "; ".join(missing),
            hint="set them, or PERAGO_STORE=embedded and PERAGO_ORCHESTRATOR=embedded; credentials "
            "of other tools are not taken for another server than the one that they name",
        )
    for name in ("lakefs_ca_file", "conductor_ca_file"):
        path: Path | None = getattr(settings, name)
        if path is not None:
            _check_ca_file(name, path)


def _missing_for_store(settings: Settings) -> list[str]:
    if settings.store != "lakefs":
        return []
    return [
        f"{name} ({ENVIRONMENT_PREFIX}{name.upper()}, {lakectl.variable}, "
        f"or {lakectl.section}.{lakectl.key} in ~/.lakectl.yaml) for the lakeFS store"
        for name, lakectl in LAKECTL_NAMES.items()
        if getattr(settings, name) is None
    ]


def _missing_for_orchestrator(settings: Settings) -> list[str]:
    if settings.orchestrator != "conductor":
        return []
    missing = []
    if settings.conductor_url is None:
        missing.append(f"{URL} ({ENVIRONMENT_PREFIX}{URL.upper()} or {URL_VARIABLE}) for Conductor")
    halves = (settings.conductor_auth_key, settings.conductor_auth_secret)
    if halves.count(None) == 1:
        missing.append("both of conductor_auth_key and conductor_auth_secret, or neither")
    return missing


def _check_ca_file(name: str, path: Path) -> None:
    hint = "name a file of CA certificates in PEM form"
    if not path.is_file():
        raise SettingsError(f"{name} is no file: {path}", hint=hint)
    try:
        ssl.create_default_context(cafile=str(path))
    except ssl.SSLError:  # before OSError, which it is one of
        raise SettingsError(f"{name} holds no certificates: {path}", hint=hint) from None
    except OSError as error:
        raise SettingsError(f"cannot read {name}: {path}: {error.strerror}", hint=hint) from error
