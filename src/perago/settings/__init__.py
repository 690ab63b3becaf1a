"""Flags, environment and files -> one frozen `Settings`, read once.

Order of precedence: flag > environment (`PERAGO_*`) > `perago.toml`, or `[tool.perago]` in
`pyproject.toml` > for the access to a lakeFS server, what lakectl has > default. Every value
remembers where it came from, and an error names that place. Nothing else in Perago reads the
environment for configuration.
"""

from perago.settings.completeness import require_complete
from perago.settings.model import ENVIRONMENT_PREFIX, Settings
from perago.settings.resolve import ResolvedSettings, resolve_settings
from perago.settings.secrets import redactor_of

__all__ = [
    "ENVIRONMENT_PREFIX",
    "ResolvedSettings",
    "Settings",
    "redactor_of",
    "require_complete",
    "resolve_settings",
]
