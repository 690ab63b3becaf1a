"""What is kept of a Spark Connect session: its open operations, and who ends it."""

from __future__ import annotations

import copy
import json
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace
from typing import Any

import grpc
import pytest
from pyspark.sql.connect import proto
from pyspark.sql.connect.shell.progress import StageInfo

from perago.adapters.spark.connect import ConnectSettings
from perago.adapters.spark.connect.end_sessions import watch
from perago.adapters.spark.connect.operations import ANSWER_SECONDS, OpenOperations
from perago.adapters.spark.connect.progress import ConnectSparkWatch
from perago.domain.errors import EnvironmentUnfitError, TaskTerminalError

SERVICE = "/spark.connect.SparkConnectService"


def begin(
    operations: OpenOperations, name: str, plan: proto.Plan, answers: Iterable[Any] = ()
) -> Iterator[Any]:
    request = proto.ExecutePlanRequest(operation_id=name, plan=plan)
    request.request_options.add().reattach_options.reattachable = True
    return iter(
        operations.intercept_unary_stream(
            lambda _details, _request: answers, called("ExecutePlan"), request
        )
    )


def go_on(operations: OpenOperations, name: str, answers: Iterable[Any]) -> Iterator[Any]:
    request = proto.ReattachExecuteRequest(operation_id=name)
    return iter(
        operations.intercept_unary_stream(
            lambda _details, _request: answers, called("ReattachExecute"), request
        )
    )


def over() -> proto.ExecutePlanResponse:
    answer = proto.ExecutePlanResponse()
    answer.result_complete.SetInParent()
    return answer


class Broken(grpc.RpcError):
    """A call that failed; with details, if it was the server that said so."""

    def __init__(self, *, by_server: bool) -> None:
        self._by_server = by_server

    def trailing_metadata(self) -> Any:
        return [("grpc-status-details-bin", b"")] if self._by_server else []


def failing(error: grpc.RpcError) -> Iterator[Any]:
    yield proto.ExecutePlanResponse()
    raise error


def called(method: str) -> Any:
    return SimpleNamespace(
        method=f"{SERVICE}/{method}",
        timeout=None,
        metadata=(),
        credentials=None,
        wait_for_ready=None,
        compression=None,
    )


def relation() -> proto.Plan:
    plan = proto.Plan()
    plan.root.range.end = 1
    return plan


def command() -> proto.Plan:
    plan = proto.Plan()
    plan.command.write_operation.path = "t"
    return plan


def listening() -> proto.Plan:
    plan = proto.Plan()
    plan.command.streaming_query_listener_bus_command.add_listener_bus_listener = True
    return plan


def compressed(kind: str) -> proto.Plan:
    plan = proto.Plan()
    operation = plan.compressed_operation
    operation.op_type = operation.OpType.Value(kind)
    return plan


def count(operations: OpenOperations) -> tuple[int, int]:
    return operations.queries, operations.commands


def test_an_operation_is_open_until_the_server_says_that_it_is_over() -> None:
    operations = OpenOperations()
    read = begin(operations, "read", relation(), [proto.ExecutePlanResponse(), over()])
    write = begin(operations, "write", command(), [proto.ExecutePlanResponse()])
    assert count(operations) == (1, 1)
    next(read)
    list(write)
    assert count(operations) == (1, 1), "the end of an answer is not that of the operation"
    list(go_on(operations, "write", [over()]))
    list(read)
    assert count(operations) == (0, 0)


def test_an_error_ends_an_operation_if_it_is_the_servers() -> None:
    operations = OpenOperations()
    for name, by_server in (("refused", True), ("lost", False)):
        with pytest.raises(Broken):
            list(begin(operations, name, command(), failing(Broken(by_server=by_server))))
    assert count(operations) == (0, 1)


def test_listening_to_streams_is_no_write() -> None:
    operations = OpenOperations()
    begin(operations, "listen", listening())
    assert count(operations) == (1, 0)


def test_a_client_that_gives_up_ends_nothing() -> None:
    operations = OpenOperations()
    write = begin(operations, "write", command(), [proto.ExecutePlanResponse(), over()])
    next(write)
    del write
    assert count(operations) == (0, 1)


def test_an_operation_that_cannot_go_on_is_over_with_its_answer() -> None:
    operations = OpenOperations()
    request = proto.ExecutePlanRequest(operation_id="old", plan=command())
    list(operations.intercept_unary_stream(lambda *_: [], called("ExecutePlan"), request))
    assert count(operations) == (0, 0)


@pytest.mark.parametrize(
    ("kind", "expected"), [("OP_TYPE_RELATION", (1, 0)), ("OP_TYPE_COMMAND", (0, 1))]
)
def test_a_big_plan_counts_as_what_it_is(kind: str, expected: tuple[int, int]) -> None:
    operations = OpenOperations()
    begin(operations, "big", compressed(kind))
    assert count(operations) == expected


def test_other_calls_are_no_operations() -> None:
    operations = OpenOperations()
    request = proto.AddArtifactsRequest()
    answer = operations.intercept_unary_stream(lambda _, it: it, called("Other"), request)
    assert answer is request
    assert count(operations) == (0, 0)


def test_once_it_is_closed_other_threads_begin_nothing() -> None:
    operations = OpenOperations()
    open_before = begin(operations, "before", command(), [over()])
    operations.close_for_others()

    with ThreadPoolExecutor(1) as other:
        with pytest.raises(TaskTerminalError, match="the body has returned"):
            other.submit(begin, operations, "late", command(), [over()]).result()
        assert count(operations) == (0, 1)
        # What had begun may come to its end.
        other.submit(list, open_before).result()
    list(begin(operations, "own", command(), [over()]))
    assert count(operations) == (0, 0)


def test_once_it_is_closed_calls_have_a_limit() -> None:
    operations, limits = OpenOperations(), list[float | None]()

    def note(details: Any, _request: object) -> list[object]:
        limits.append(details.timeout)
        return []

    for _ in range(2):
        operations.intercept_unary_unary(note, called("Interrupt"), None)
        request = proto.ExecutePlanRequest(operation_id="one", plan=command())
        list(operations.intercept_unary_stream(note, called("ExecutePlan"), request))
        operations.close_for_others()
    assert limits == [None, None, ANSWER_SECONDS, ANSWER_SECONDS]


def test_a_session_cannot_be_cloned() -> None:
    with pytest.raises(TaskTerminalError, match="clone"):
        copy.deepcopy(OpenOperations())


def test_the_guard_ends_what_was_not_closed() -> None:
    said: list[dict[str, str]] = [
        {"remote": "sc://host"},
        {"opened": "a"},
        {"opened": "b"},
        {"closed": "a"},
        {"closed": "never opened"},
    ]
    assert watch(map(json.dumps, said)) == ("sc://host", {"b"})


def test_a_message_that_the_guard_does_not_know_is_an_error() -> None:
    with pytest.raises(ValueError, match="does not know"):
        watch(['{"what": "?"}'])


def test_a_token_is_not_shown() -> None:
    settings = ConnectSettings(remote="sc://host:1/;token=hidden;use_ssl=true")
    assert settings.shown == "sc://host:1"
    assert settings.remote_of("1-2") == "sc://host:1/;token=hidden;use_ssl=true;session_id=1-2"
    assert ConnectSettings(remote="sc://host").remote_of("1-2") == "sc://host/;session_id=1-2"
    assert "hidden" not in repr(settings)


class FakeSession:
    is_stopped = False

    def registerProgressHandler(self, handler: object) -> None:  # noqa: N802 - Spark's name
        self.handler = handler


def stage(number: int, tasks: int, completed: int) -> StageInfo:
    return StageInfo(number, tasks, completed, 0, tasks == completed)


def test_what_a_server_reports_is_summed_up() -> None:
    session: Any = FakeSession()
    watch = ConnectSparkWatch(session)
    assert watch.look().jobs == 0

    watch([stage(1, 4, 4), stage(2, 8, 3)], 2, "a", done=False)
    now = watch.look()
    assert (now.jobs, now.stages, now.stages_done, now.tasks_done) == (1, 2, 1, 7)
    assert [(one.tasks, one.tasks_done) for one in now.active] == [(8, 3)]

    watch([stage(1, 4, 4), stage(2, 8, 8)], 0, "a", done=True)
    watch(None, 0, "b", done=True)
    total = watch.total()
    assert total.describe_total() == "Spark: 2 jobs, 2 stages, 12 tasks"
    assert total.active == ()

    session.is_stopped = True
    with pytest.raises(EnvironmentUnfitError):
        watch.look()
