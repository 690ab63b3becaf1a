"""What is kept of a Spark Connect session: its open operations, and who ends it."""

from __future__ import annotations

import json
from types import SimpleNamespace
from typing import Any

import pytest
from pyspark.sql.connect import proto
from pyspark.sql.connect.shell.progress import StageInfo

from perago.adapters.spark.connect import ConnectSettings
from perago.adapters.spark.connect.guard import watch
from perago.adapters.spark.connect.operations import OpenOperations
from perago.adapters.spark.connect.progress import ConnectSparkWatch
from perago.domain.errors import EnvironmentUnfitError

SERVICE = "/spark.connect.SparkConnectService"


def begin(operations: OpenOperations, name: str, plan: proto.Plan) -> None:
    request = proto.ExecutePlanRequest(operation_id=name, plan=plan)
    operations.intercept_unary_stream(answer, called("ExecutePlan"), request)


def end(operations: OpenOperations, name: str, *, whole: bool = True) -> None:
    request = proto.ReleaseExecuteRequest(operation_id=name)
    if whole:
        request.release_all.SetInParent()
    else:
        request.release_until.response_id = "1"
    operations.intercept_unary_unary(answer, called("ReleaseExecute"), request)


def called(method: str) -> Any:
    return SimpleNamespace(method=f"{SERVICE}/{method}")


def answer(_details: object, request: object) -> object:
    return request


def relation() -> proto.Plan:
    plan = proto.Plan()
    plan.root.range.end = 1
    return plan


def command() -> proto.Plan:
    plan = proto.Plan()
    plan.command.write_operation.path = "t"
    return plan


def compressed(kind: str) -> proto.Plan:
    plan = proto.Plan()
    operation = plan.compressed_operation
    operation.op_type = operation.OpType.Value(kind)
    return plan


def test_an_operation_is_open_until_it_is_released() -> None:
    operations = OpenOperations()
    begin(operations, "read", relation())
    begin(operations, "write", command())
    assert (operations.queries, operations.commands) == (1, 1)
    end(operations, "write", whole=False)
    assert operations.commands == 1
    end(operations, "write")
    end(operations, "read")
    assert (operations.queries, operations.commands) == (0, 0)


@pytest.mark.parametrize(
    ("kind", "expected"), [("OP_TYPE_RELATION", (1, 0)), ("OP_TYPE_COMMAND", (0, 1))]
)
def test_a_big_plan_counts_as_what_it_is(kind: str, expected: tuple[int, int]) -> None:
    operations = OpenOperations()
    begin(operations, "big", compressed(kind))
    assert (operations.queries, operations.commands) == expected


def test_other_calls_are_no_operations() -> None:
    operations = OpenOperations()
    request = proto.ReattachExecuteRequest(operation_id="again")
    assert operations.intercept_unary_stream(answer, called("ReattachExecute"), request) is request
    config = proto.ConfigRequest()
    assert operations.intercept_unary_unary(answer, called("Config"), config) is config
    assert (operations.queries, operations.commands) == (0, 0)


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
