"""Names for the identifiers that must never be mixed up.

They are `NewType`s of `str`: free at run time, distinct to the type checker.
"""

from __future__ import annotations

from typing import NewType

RepositoryName = NewType("RepositoryName", str)
BranchName = NewType("BranchName", str)

CommitId = NewType("CommitId", str)
"""An immutable commit. A branch name is never one."""

TreeId = NewType("TreeId", str)
"""Identifies the content of a whole commit: equal ids mean equal objects."""

ObjectPath = NewType("ObjectPath", str)
"""The full name of an object in its repository. Untrusted: any text may have been stored."""

RelativePath = NewType("RelativePath", str)
"""A checked, `/`-separated path below the directory that a task body gets."""

Digest = NewType("Digest", str)
"""Perago's own content hash of one file (hexadecimal BLAKE3), never a server's ETag."""

WorkflowId = NewType("WorkflowId", str)
"""One workflow instance."""

TaskId = NewType("TaskId", str)
"""One task attempt at the orchestrator. The same id can be delivered twice."""

ExecutionId = NewType("ExecutionId", str)
"""One time an executor really runs an attempt; 32 hexadecimal digits."""

WorkerId = NewType("WorkerId", str)
"""Unique per supervisor start."""
