"""What hides secrets in the words of a command: it knows those of the settings read last.

A command's words are also those of its end, when its settings are out of reach: so they are kept
for the whole process.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from perago.domain.redaction import NOTHING_KNOWN, Redactor

if TYPE_CHECKING:
    from perago.settings import Settings


class _Process:
    redactor: Redactor = NOTHING_KNOWN


def learn_secrets(settings: Settings, environment: Mapping[str, str]) -> None:
    """From now on, hide the secrets of these settings and this environment."""
    from perago.settings import redactor_of

    _Process.redactor = redactor_of(settings, environment)


def forget_secrets() -> None:
    """From now on, hide only what looks like a secret."""
    _Process.redactor = NOTHING_KNOWN


def current_redactor() -> Redactor:
    """What hides secrets in whatever is printed now."""
    return _Process.redactor
