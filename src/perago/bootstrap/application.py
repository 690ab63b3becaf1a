"""The clients of one command's process."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from functools import cached_property

from perago.adapters.embedded.orchestrator import EmbeddedOrchestrator
from perago.adapters.embedded.store import EmbeddedWorkspaceStore
from perago.adapters.localfs.clock import SystemClock
from perago.adapters.localfs.home import make_home, require_home
from perago.bootstrap.stores import open_embedded_store, open_store
from perago.domain.errors import UsageError
from perago.ports import Clock, WorkspaceStore
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
    def orchestrator(self) -> EmbeddedOrchestrator:
        """The orchestrator of the home."""
        self._settle_home()
        return self._stack.enter_context(EmbeddedOrchestrator(self.settings.home, self.clock))

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
