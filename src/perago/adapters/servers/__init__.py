"""Servers for development and tests: their programs, and their processes on loopback.

Nothing of this is needed to use a server that somebody else runs.
"""

from __future__ import annotations

from perago.adapters.progress import Progress
from perago.adapters.servers.binaries import find_binary, provide_binary
from perago.adapters.servers.conductor import ConductorServer, ConductorState
from perago.adapters.servers.conductor_program import (
    ConductorProgram,
    find_conductor,
    provide_conductor,
)
from perago.adapters.servers.lakefs import LakeFSServer, LakeFSState
from perago.adapters.servers.local_server import (
    LocalServer,
    ServerReport,
    ServerStatus,
    StartedServer,
)
from perago.adapters.servers.program_cache import Binary
from perago.adapters.servers.programs import (
    CONDUCTOR,
    CONDUCTOR_VERSION,
    LAKECTL,
    LAKEFS,
    LAKEFS_VERSION,
    GoProgram,
)
from perago.adapters.servers.states import ServerState
from perago.adapters.servers.throwaway import (
    ThrowawayConductor,
    ThrowawayLakeFS,
    throwaway_conductor,
    throwaway_lakefs,
)

__all__ = [
    "CONDUCTOR",
    "CONDUCTOR_VERSION",
    "LAKECTL",
    "LAKEFS",
    "LAKEFS_VERSION",
    "Binary",
    "ConductorProgram",
    "ConductorServer",
    "ConductorState",
    "GoProgram",
    "LakeFSServer",
    "LakeFSState",
    "LocalServer",
    "Progress",
    "ServerReport",
    "ServerState",
    "ServerStatus",
    "StartedServer",
    "ThrowawayConductor",
    "ThrowawayLakeFS",
    "find_binary",
    "find_conductor",
    "provide_binary",
    "provide_conductor",
    "throwaway_conductor",
    "throwaway_lakefs",
]
