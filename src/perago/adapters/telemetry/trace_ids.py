"""The trace that a workflow instance is.

Every attempt of a workflow, on whichever worker, belongs to one trace, whose id follows from the
workflow's: no worker needs to tell another, and whoever started the workflow can add spans to it.
A hash, and not the bits of an id that is a UUID: samplers take the low bits for random, and those
of a UUID are not.
"""

from __future__ import annotations

import hashlib

from perago.domain.ids import WorkflowId

_DOMAIN = b"perago-workflow:"


def trace_id_of(workflow_id: WorkflowId) -> int:
    """The first 16 bytes of SHA-256 of `perago-workflow:` and the id; never 0, which is no id."""
    text = workflow_id.encode("utf-8", "surrogatepass")
    return int.from_bytes(hashlib.sha256(_DOMAIN + text).digest()[:16], "big") or 1
