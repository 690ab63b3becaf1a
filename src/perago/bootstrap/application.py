"""The clients of one command's process."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from functools import cached_property

from perago.adapters.embedded.store import EmbeddedWorkspaceStore
from perago.adapters.localfs.clock import SystemClock
from perago.adapters.localfs.home import make_home, require_home
from perago.bootstrap.orchestrators import open_orchestrator
from perago.bootstrap.stores import open_embedded_store, open_store
from perago.domain.errors import UsageError
from perago.ports import Clock, Orchestrator, WorkspaceStore
from perago.settings import Settings, require_complete


class Application:
    """What the commands work with, each part opened when it is first asked for.

    So nobody waits for the lakeFS client who only asks for a log, and nobody needs a home who
    only looks into a lakeFS store. Unless asked to create it, a home that is needed must exist.
    """

    def __init__(self, settings: Settings, stack: ExitStack, *, create: bool) -> None:
        self.settings = settings
        self.clock: Clock = SystemClock()
        self._stack = stack
        self._create = create

    @cached_property
    def store(self) -> WorkspaceStore:
        """The store that the settings choose."""
        if self.settings.store == "embedded":
            return self.embedded_store
        return open_store(self.settings, self.clock, self._stack)

    @cached_property
    def embedded_store(self) -> EmbeddedWorkspaceStore:
        """The embedded store, for what only it can do; `UsageError` where another is chosen."""
        if self.settings.store != "embedded":
            raise UsageError(
                "that is for the embedded store, and the workspaces are on a lakeFS server",
                hint="lakeFS checks and collects its own content: that is its operator's job; "
                "`perago gc --staging` removes what Perago's executions left there",
            )
        self._settle_home()
        return self._stack.enter_context(open_embedded_store(self.settings, self.clock))

    @cached_property
    def orchestrator(self) -> Orchestrator:
        """The orchestrator that the settings choose."""
        return self._open_orchestrator(retries=True)

    @cached_property
    def impatient_orchestrator(self) -> Orchestrator:
        """The same for those who try again in their own time: a failed call is not repeated."""
        return self._open_orchestrator(retries=False)

    def _open_orchestrator(self, *, retries: bool) -> Orchestrator:
        if self.settings.orchestrator == "embedded":
            self._settle_home()
        return open_orchestrator(self.settings, self.clock, self._stack, retries=retries)

    def _settle_home(self) -> None:
        if self._create:
            make_home(self.settings.home)
        else:
            require_home(self.settings.home)


@contextmanager
def open_application(settings: Settings, *, create: bool = False) -> Iterator[Application]:
    """Everything a command needs, closed afterwards; incomplete settings are refused at once."""
    require_complete(settings)
    with ExitStack() as stack:
        yield Application(settings, stack, create=create)
