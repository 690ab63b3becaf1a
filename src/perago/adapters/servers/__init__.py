"""Servers for development and tests: their binaries, and their processes on loopback.

Nothing of this is needed to use a server that somebody else runs.
"""

from __future__ import annotations

from perago.adapters.servers.binaries import Binary, find_binary, provide_binary
from perago.adapters.servers.lakefs import LakeFSReport, LakeFSServer, ServerStatus, StartedLakeFS
from perago.adapters.servers.lakefs_state import LakeFSState
from perago.adapters.servers.programs import LAKECTL, LAKEFS, LAKEFS_VERSION, GoProgram
from perago.adapters.servers.progress import Progress
from perago.adapters.servers.throwaway import ThrowawayLakeFS, throwaway_lakefs

__all__ = [
    "LAKECTL",
    "LAKEFS",
    "LAKEFS_VERSION",
    "Binary",
    "GoProgram",
    "LakeFSReport",
    "LakeFSServer",
    "LakeFSState",
    "Progress",
    "ServerStatus",
    "StartedLakeFS",
    "ThrowawayLakeFS",
    "find_binary",
    "provide_binary",
    "throwaway_lakefs",
]
