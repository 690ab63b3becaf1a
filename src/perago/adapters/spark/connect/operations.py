"""What a session has asked its server to do and has not heard the end of.

The server does not tell which operations of a session still run, so this end of the connection
keeps count. Invariant: an operation is over when the server has said so, with its result or with an
error of its own. That a client gave up (a lost connection, a body's own time-out) ends nothing.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple, NoReturn

import grpc

from perago.domain.errors import TaskTerminalError

_DETAILS = "grpc-status-details-bin"
ANSWER_SECONDS = 30.0
"""How long the server may take to answer once the body has returned."""
_BEGINS, _GOES_ON = "/ExecutePlan", "/ReattachExecute"


class _CallDetails(NamedTuple):
    """What gRPC asks of the details of a call."""

    method: str
    timeout: float | None
    metadata: Any
    credentials: Any
    wait_for_ready: bool | None
    compression: Any


class OpenOperations(grpc.UnaryUnaryClientInterceptor, grpc.UnaryStreamClientInterceptor):
    """Counts a session's operations as their answers go by.

    After `close_for_others`, threads other than the one that said so begin none, and that one's
    have a limit: a server that takes connections may answer nothing all the same.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._only_thread: int | None = None
        self._are_queries: dict[str, bool] = {}
        self._open: set[str] = set()

    @property
    def commands(self) -> int:
        """How many open operations may write."""
        with self._lock:
            return sum(not self._are_queries[operation] for operation in self._open)

    @property
    def queries(self) -> int:
        """How many only read; one whose rows nobody fetches to the end stays open."""
        with self._lock:
            return sum(self._are_queries[operation] for operation in self._open)

    def close_for_others(self) -> None:
        """Let no thread but this one begin an operation from now on."""
        with self._lock:
            self._only_thread = threading.get_ident()

    def intercept_unary_unary(
        self, continuation: Callable[[Any, Any], Any], client_call_details: Any, request: Any
    ) -> Any:
        return continuation(self._limited(client_call_details), request)

    def intercept_unary_stream(
        self, continuation: Callable[[Any, Any], Any], client_call_details: Any, request: Any
    ) -> Any:
        method = client_call_details.method
        if not method.endswith((_BEGINS, _GOES_ON)):
            return continuation(self._limited(client_call_details), request)
        operation, can_go_on = request.operation_id, True
        with self._lock:
            if method.endswith(_BEGINS):
                if self._only_thread not in (None, threading.get_ident()):
                    raise TaskTerminalError(
                        "the body has returned, and its Spark session is not to be used any more",
                        hint="have the body wait for all that it starts",
                    )
                self._are_queries[operation] = _is_query(request.plan)
                can_go_on = any(
                    each.HasField("reattach_options") for each in request.request_options
                )
            self._open.add(operation)
        answers = continuation(self._limited(client_call_details), request)
        return self._watched(operation, answers, can_go_on=can_go_on)

    def _watched(self, operation: str, answers: Any, *, can_go_on: bool) -> Iterator[Any]:
        """The same answers. `can_go_on`: their end alone is not that of the operation."""
        try:
            for answer in answers:
                if answer.HasField("result_complete"):
                    self._end(operation)
                yield answer
        except grpc.RpcError as error:
            if _is_servers_own(error):
                self._end(operation)
            raise
        if not can_go_on:
            self._end(operation)

    def _limited(self, details: Any) -> Any:
        if self._only_thread is None:
            return details
        return _CallDetails(
            details.method,
            ANSWER_SECONDS,
            details.metadata,
            details.credentials,
            details.wait_for_ready,
            details.compression,
        )

    def _end(self, operation: str) -> None:
        with self._lock:
            self._open.discard(operation)

    def __deepcopy__(self, memo: object) -> NoReturn:
        """What pyspark does for a second session like this one, which nobody would watch."""
        raise TaskTerminalError(
            "a body cannot clone its Spark session",
            hint="use workspace.spark: an attempt has one session",
        )


def _is_servers_own(error: Any) -> bool:
    """Whether an error is the server's: it has details then; one of the connection has none."""
    return any(name == _DETAILS for name, _ in error.trailing_metadata() or ())


def _is_query(plan: Any) -> bool:
    """Whether a plan only reads: a relation, which a big plan is in compressed form.

    Or listens to streams, which goes on until nobody listens any more.
    """
    match plan.WhichOneof("op_type"):
        case "root":
            return True
        case "command":
            kind = plan.command.WhichOneof("command_type")
            return bool(kind == "streaming_query_listener_bus_command")
        case "compressed_operation":
            operation = plan.compressed_operation
            return bool(operation.op_type == operation.OpType.OP_TYPE_RELATION)
        case _:
            return False
