"""The workspace store on a lakeFS server."""

from perago.adapters.lakefs.connection import LakeFSConnection
from perago.adapters.lakefs.store import LakeFSWorkspaceStore

__all__ = ["LakeFSConnection", "LakeFSWorkspaceStore"]
