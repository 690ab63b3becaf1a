"""What a session has asked its server to do and has not heard the end of.

The server does not tell which operations of a session still run, so this end of the connection
keeps count. A client releases an operation when it has heard that it is over, or failed.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import grpc

_BEGINS, _ENDS = "/ExecutePlan", "/ReleaseExecute"


class OpenOperations(grpc.UnaryStreamClientInterceptor, grpc.UnaryUnaryClientInterceptor):
    """Counts a session's operations as their calls go by; changes none of them."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._commands: set[str] = set()
        self._queries: set[str] = set()

    @property
    def commands(self) -> int:
        """How many open operations may write."""
        with self._lock:
            return len(self._commands)

    @property
    def queries(self) -> int:
        """How many only read; one whose rows nobody fetches to the end stays open."""
        with self._lock:
            return len(self._queries)

    def intercept_unary_stream(
        self, continuation: Callable[[Any, Any], Any], client_call_details: Any, request: Any
    ) -> Any:
        if client_call_details.method.endswith(_BEGINS):
            with self._lock:
                kind = self._queries if _is_query(request.plan) else self._commands
                kind.add(request.operation_id)
        return continuation(client_call_details, request)

    def intercept_unary_unary(
        self, continuation: Callable[[Any, Any], Any], client_call_details: Any, request: Any
    ) -> Any:
        is_end = client_call_details.method.endswith(_ENDS)
        if is_end and request.WhichOneof("release") == "release_all":
            with self._lock:
                self._commands.discard(request.operation_id)
                self._queries.discard(request.operation_id)
        return continuation(client_call_details, request)


def _is_query(plan: Any) -> bool:
    """Whether a plan only reads: a relation, which a big plan is in compressed form."""
    match plan.WhichOneof("op_type"):
        case "root":
            return True
        case "compressed_operation":
            operation = plan.compressed_operation
            return bool(operation.op_type == operation.OpType.OP_TYPE_RELATION)
        case _:
            return False
