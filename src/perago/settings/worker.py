"""The settings of a worker: its executors, its polls, and what it tells."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Annotated, Literal

from pydantic import BaseModel, ByteSize, Field, field_validator


class WorkerSettings(BaseModel):
    """How a supervisor and its executors work."""

    executors: Annotated[
        int, Field(description="How many attempts run at a time, each in a process.", ge=1, le=256)
    ] = 1
    task_limits: Annotated[
        Mapping[str, Annotated[int, Field(ge=1)]],
        Field(
            description="How many attempts of a task one worker runs at a time, where fewer than "
            "`executors`: a table in a file, a JSON object in PERAGO_TASK_LIMITS."
        ),
    ] = {}
    poll_wait_seconds: Annotated[
        float,
        Field(
            description="How long a poll of an idle worker waits at the Conductor server. A worker "
            "that is stopped waits for it.",
            ge=0,
            le=5,
        ),
    ] = 2.0
    executor_death_limit: Annotated[
        int,
        Field(description="How many executors one step may kill before it fails for good.", ge=1),
    ] = 3
    recycle_after_attempts: Annotated[
        int | None,
        Field(description="An executor that ran so many attempts is replaced.", ge=1),
    ] = None
    recycle_above_memory: Annotated[
        ByteSize | None,
        Field(
            description="An executor whose own process holds more than this after an attempt, such "
            "as `4GB`, is replaced. Spark's Java process is not counted.",
            gt=0,
        ),
    ] = None
    attempt_log_bytes: Annotated[
        ByteSize | None,
        Field(
            description="How much an attempt may write to its log; one that writes more fails.",
            gt=0,
        ),
    ] = ByteSize(256 * 1024 * 1024)
    attempt_processes: Annotated[
        int | None,
        Field(
            description="How many processes an attempt may run, Spark's included; one that runs "
            "more fails.",
            ge=1,
        ),
    ] = 512
    attempt_open_files: Annotated[
        int | None,
        Field(
            description="How many files each process of an attempt may have open, where the system "
            "allows as many.",
            ge=64,
        ),
    ] = 16384
    task_environment: Annotated[
        tuple[str, ...],
        Field(
            description="Which variables of Perago's own and of its servers (`PERAGO_*`, "
            "`LAKECTL_*`, `LAKEFS_*`, `CONDUCTOR_*`, and the headers of OpenTelemetry's exporters) "
            "tasks and their Spark get all the same: names or patterns such as `LAKECTL_*`, a list "
            "in a file, separated by commas in PERAGO_TASK_ENVIRONMENT. Every other variable they "
            "get anyway."
        ),
    ] = ()
    shutdown_grace_seconds: Annotated[
        float, Field(description="How long running attempts may go on after a stop signal.", ge=0)
    ] = 30.0
    keep_logs_days: Annotated[
        float,
        Field(description="How long a worker keeps the logs of a workflow's attempts.", gt=0),
    ] = 30.0
    log_level: Annotated[
        Literal["DEBUG", "INFO", "WARNING", "ERROR"],
        Field(description="How much goes into the logs."),
    ] = "INFO"
    log_format: Annotated[
        Literal["auto", "console", "json"],
        Field(
            description="How a worker writes its log lines: for people, or one JSON object a line. "
            "`auto` is `console` on a terminal and `json` elsewhere."
        ),
    ] = "auto"
    http_port: Annotated[
        int | None,
        Field(
            description="Where a worker serves `/livez`, `/readyz` and `/metrics`; nowhere unless "
            "set. 0 takes a free port.",
            ge=0,
            le=65535,
        ),
    ] = None
    http_host: Annotated[
        str, Field(description="The address for `http_port`; `0.0.0.0` for all.", min_length=1)
    ] = "127.0.0.1"

    @field_validator("task_environment", mode="before")
    @classmethod
    def _split_names(cls, value: object) -> object:
        if not isinstance(value, str):
            return value
        return [name.strip() for name in value.split(",") if name.strip()]

    @field_validator("task_limits", mode="before")
    @classmethod
    def _parse_limits(cls, value: object) -> object:
        try:
            return json.loads(value) if isinstance(value, str) else value
        except json.JSONDecodeError:
            raise ValueError("expected a JSON object of task names and numbers") from None
