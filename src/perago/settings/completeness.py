"""What must be set before anything runs."""

from __future__ import annotations

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
    if settings.lakefs_ca_file is not None and not settings.lakefs_ca_file.is_file():
        raise SettingsError(
            f"lakefs_ca_file is no file: {settings.lakefs_ca_file}",
            hint="name a file of CA certificates in PEM form",
        )
