"""All checks of a lakeFS server, in order; those that others make pointless are left out."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack

from perago.adapters.lakefs.api import LakeFSApi
from perago.adapters.lakefs.connection import LakeFSConnection
from perago.adapters.lakefs.data_plane import DataPlane
from perago.adapters.lakefs.history import History
from perago.adapters.lakefs.probe.server import ServerCheck
from perago.adapters.lakefs.probe.target import TargetCheck
from perago.adapters.lakefs.probe.trial import Tools, Trial
from perago.adapters.lakefs.wire import Wire
from perago.adapters.patience import Patience
from perago.app.diagnosis import Check, failed_by, skipped
from perago.domain.errors import PeragoError
from perago.domain.ids import BranchName, RepositoryName

_PERMISSIONS = "permissions"
_PATIENCE_SECONDS = 3.0
"""Somebody waits for the answer, and a server that fails now and then is part of it."""


def probe_lakefs(
    connection: LakeFSConnection, repository: RepositoryName, branch: BranchName, *, write: bool
) -> Iterator[Check]:
    """Check the server and a target branch on it; without `write`, by reading alone."""
    with ExitStack() as stack:
        patience = Patience(min(connection.retry_seconds, _PATIENCE_SECONDS))
        wire = Wire(connection)
        stack.callback(wire.close)
        api = LakeFSApi(connection, wire, patience)
        data = DataPlane(connection, wire, patience)
        stack.callback(data.close)
        history = History(api, connection.timeout_seconds, connection.storage_namespace)
        tools = Tools(
            api=api, history=history, data=data, timeout_seconds=connection.timeout_seconds
        )
        target = TargetCheck(api, history, repository, branch)
        yield from _check_server(ServerCheck(api, connection), target, tools, write=write)


def _check_server(
    server: ServerCheck, target: TargetCheck, tools: Tools, *, write: bool
) -> Iterator[Check]:
    reached = server.endpoint()
    yield reached
    if reached.is_problem:
        yield skipped("server", "everything else about it")
        return
    yield server.clock()
    known = server.credentials()
    yield known
    if known.is_problem:
        yield skipped("server", "everything that it shows to its users only")
        return
    yield from server.configuration()
    yield target.repository()
    if not target.is_found:
        yield skipped(_PERMISSIONS, "not tried: there is no repository to try them in")
        return
    yield from target.rest()
    if not write:
        yield skipped(_PERMISSIONS, "not tried, as --no-probe asks")
    elif target.is_read_only:
        yield skipped(_PERMISSIONS, "the repository is read-only")
    else:
        yield from _try_permissions(target, tools)


def _try_permissions(target: TargetCheck, tools: Tools) -> list[Check]:
    try:
        source = target.any_commit()
        if source is None:
            return [skipped(_PERMISSIONS, "there is no branch to begin at")]
        return Trial(tools, target.repository_name, source).run()
    except PeragoError as error:
        return [failed_by(_PERMISSIONS, error)]
