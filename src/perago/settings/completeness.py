"""What must be set before anything runs."""

from __future__ import annotations

import ssl
from pathlib import Path

from perago.domain.errors import SettingsError
from perago.settings.lakectl import LAKECTL_NAMES
from perago.settings.model import ENVIRONMENT_PREFIX, Settings


def require_complete(settings: Settings) -> None:
    """Raise one `SettingsError` that names everything the chosen store lacks."""
    if settings.store != "lakefs":
        return
    missing = [
        f"{name} ({ENVIRONMENT_PREFIX}{name.upper()}, {lakectl.variable}, "
        f"or {lakectl.section}.{lakectl.key} in ~/.lakectl.yaml)"
        for name, lakectl in LAKECTL_NAMES.items()
        if getattr(settings, name) is None
    ]
    if missing:
        raise SettingsError(
            "the lakeFS store needs more settings: " + "; ".join(missing),
            hint="set them, or PERAGO_STORE=embedded; credentials of lakectl's are not taken for "
            "another server than lakectl's own",
        )
    if settings.lakefs_ca_file is not None:
        _check_ca_file(settings.lakefs_ca_file)


def _check_ca_file(path: Path) -> None:
    hint = "name a file of CA certificates in PEM form"
    if not path.is_file():
        raise SettingsError(f"lakefs_ca_file is no file: {path}", hint=hint)
    try:
        ssl.create_default_context(cafile=str(path))
    except ssl.SSLError:  # before OSError, which it is one of
        raise SettingsError(f"lakefs_ca_file holds no certificates: {path}", hint=hint) from None
    except OSError as error:
        raise SettingsError(
            f"cannot read lakefs_ca_file: {path}: {error.strerror}", hint=hint
        ) from error
