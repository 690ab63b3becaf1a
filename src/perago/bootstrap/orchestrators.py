"""Which orchestrator the settings choose, and how it is opened."""

from __future__ import annotations

import os
from contextlib import ExitStack
from typing import TYPE_CHECKING, assert_never

from perago.adapters.embedded.orchestrator import EmbeddedOrchestrator
from perago.app.redacted_orchestrator import without_secrets
from perago.domain.redaction import Redactor
from perago.ports import Clock, Orchestrator
from perago.settings import Settings, redactor_of, require_complete

if TYPE_CHECKING:
    from perago.adapters.conductor import ConductorConnection


def open_orchestrator(
    settings: Settings,
    clock: Clock,
    stack: ExitStack,
    *,
    retries: bool = True,
    redactor: Redactor | None = None,
) -> Orchestrator:
    """The orchestrator that the settings choose, told no secrets; the stack closes it.

    Without `retries` a call that fails is not repeated: for callers that try again in their own
    time, as a supervisor does.
    """
    opened: Orchestrator
    match settings.orchestrator:
        case "embedded":
            opened = stack.enter_context(EmbeddedOrchestrator(settings.home, clock))
        case "conductor":
            from perago.adapters.conductor import ConductorOrchestrator

            opened = stack.enter_context(
                ConductorOrchestrator(conductor_connection(settings, retries=retries))
            )
        case _:
            assert_never(settings.orchestrator)
    return without_secrets(opened, redactor or redactor_of(settings, os.environ))


def describe_orchestrator(settings: Settings) -> str:
    """Which one it would be, without opening it."""
    match settings.orchestrator:
        case "embedded":
            return f"embedded at {settings.home}"
        case "conductor":
            return f"Conductor at {settings.conductor_url or '(not set)'}"


def conductor_connection(settings: Settings, *, retries: bool = True) -> ConductorConnection:
    """The Conductor part of complete settings, as its adapter takes it."""
    from perago.adapters.conductor import ConductorConnection

    require_complete(settings)
    secret = settings.conductor_auth_secret
    assert settings.conductor_url is not None
    return ConductorConnection(
        url=settings.conductor_url,
        auth_key=settings.conductor_auth_key,
        auth_secret=None if secret is None else secret.get_secret_value(),
        ca_file=settings.conductor_ca_file,
        timeout_seconds=settings.conductor_timeout_seconds,
        retry_seconds=settings.conductor_retry_seconds if retries else 0.0,
    )
