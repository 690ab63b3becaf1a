"""How a body reaches the files of its workspace, and which way an attempt takes."""

from __future__ import annotations

from enum import StrEnum


class Access(StrEnum):
    """How a body reaches the files of its workspace."""

    LOCAL = "local"
    """The worker brings them to its machine, and sends back what changed."""

    DIRECT = "direct"
    """Spark reads the input commit and writes the staging branch itself."""


def decide_access(
    declared: Access | None, default: Access, *, is_spark: bool, store_is_reachable: bool
) -> Access:
    """The way that one attempt takes: the task's own choice, else the worker's.

    Only Spark can go directly, and only to a store that other programs can reach: on any other the
    same body runs on local files.
    """
    if not is_spark or not store_is_reachable:
        return Access.LOCAL
    return declared or default
