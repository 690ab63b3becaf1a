"""Bodies that tell whatever they find, in every way that a body has.

Copied under a name of the test's own, which the tasks take. Beside the copy is a file with the
secrets of the test: a body that came by one elsewhere would tell it in the same ways.
"""

from __future__ import annotations

import logging
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.request import urlopen

from pydantic import BaseModel

from perago import (
    Pipeline,
    RetryPolicy,
    SparkWorkspace,
    TaskContext,
    TaskControls,
    WorkspaceSpec,
    task,
)

MARK = Path(__file__).stem.rpartition("_")[2]
OWNER = "data@example.com"
ONCE = TaskControls(retry=RetryPolicy(count=0))
FOUND = Path(__file__).with_name("secrets.txt")
PAGES = Path(__file__).with_name("pages")
READY, GO = Path(__file__).with_name("ready"), Path(__file__).with_name("go")
SPARK_PAGES = ("jobs/", "environment/", "executors/", "SQL/")
SPARK_RESOURCES = ("environment", "allexecutors", "sql?details=true")

log = logging.getLogger("peeking")


class Nothing(BaseModel):
    """It needs none."""


class Seen(BaseModel):
    """What this process can read of itself and of its parent."""

    own: list[str]
    processes: list[str]


def read_processes() -> dict[str, str]:
    """What the kernel shows of the environments and command lines around this process."""
    found = {}
    for pid in ("self", os.getppid()):
        for name in ("environ", "cmdline"):
            try:
                text = Path(f"/proc/{pid}/{name}").read_bytes().decode("utf-8", "replace")
            except OSError as error:
                text = f"({type(error).__name__})"
            found[f"{pid} {name}"] = text.replace("\0", "\n")
    return found


@task(f"look_{MARK}", owner_email=OWNER, workspace=WorkspaceSpec("out"), controls=ONCE)
def look(workspace: Path, params: Nothing) -> Seen:
    """Publish and return what is to be seen without any help: it holds no secret."""
    seen = Seen(
        own=[f"{name}={value}" for name, value in sorted(os.environ.items())],
        processes=[f"{name}: {text}" for name, text in read_processes().items()],
    )
    (workspace / "seen.json").write_text(seen.model_dump_json())
    return seen


@task(f"tell_{MARK}", owner_email=OWNER, workspace=WorkspaceSpec("out"), controls=ONCE)
def tell(workspace: Path, params: Nothing, context: TaskContext) -> Seen:
    """Fail with all that can be found, and tell it in every other way before."""
    tell_all(context)
    (workspace / "never.txt").write_text("published")
    raise ValueError(f"what was found: {FOUND.read_text()} {read_processes()}")


@task(f"die_{MARK}", owner_email=OWNER, workspace=WorkspaceSpec("out"), controls=ONCE)
def die(workspace: Path, params: Nothing, context: TaskContext) -> Seen:
    """Tell it all, and take the executor along, which can remove nothing any more."""
    tell_all(context)
    os.kill(os.getpid(), signal.SIGKILL)
    raise AssertionError("it should be dead")


def tell_all(context: TaskContext) -> None:
    """Print it, log it, have a child print it, and call it progress."""
    found = FOUND.read_text()
    for process, text in read_processes().items():
        print(process, text)
    print(found)
    print(found, file=sys.stderr)
    subprocess.run(["cat", str(FOUND)], check=True)
    subprocess.run(["env"], check=True)
    for line in found.splitlines():
        log.warning("found %s", line)
        context.progress(f"found {line}", 0.5)
    log.error("with a traceback", exc_info=KeyError(found))


@task(
    f"tell_spark_{MARK}",
    owner_email=OWNER,
    workspace=WorkspaceSpec("out", access="direct"),
    controls=ONCE,
)
def tell_spark(workspace: SparkWorkspace, params: Nothing, context: TaskContext) -> Seen:
    """Keep what Spark's pages show, wait to be looked at, and fail with all that can be found."""
    spark = workspace.spark
    workspace.write(spark.range(2).toDF("id"), "t")
    java: Any = spark.sparkContext._jvm
    hadoop: Any = spark.sparkContext._jsc.hadoopConfiguration()
    settings = [f"{entry.getKey()}={entry.getValue()}" for entry in iter_java(hadoop)]
    settings += [f"{name}={value}" for name, value in spark.sparkContext.getConf().getAll()]
    print("Java's environment:", dict(java.System.getenv()))
    java.System.out.println(FOUND.read_text())
    keep_pages(spark)
    wait_to_be_seen()
    tell_all(context)
    raise ValueError(f"what was found: {' '.join(settings)} {FOUND.read_text()}")


def iter_java(thing: Any) -> Iterator[Any]:
    iterator = thing.iterator()
    while iterator.hasNext():
        yield iterator.next()


def keep_pages(spark: Any) -> None:
    context = spark.sparkContext
    api = f"{context.uiWebUrl}/api/v1/applications/{context.applicationId}"
    addresses = [f"{context.uiWebUrl}/{page}" for page in SPARK_PAGES]
    addresses += [f"{api}/{name}" for name in SPARK_RESOURCES]
    PAGES.mkdir()
    for number, address in enumerate(addresses):
        with urlopen(address, timeout=30) as answer:
            (PAGES / str(number)).write_bytes(answer.read())


def wait_to_be_seen() -> None:
    """Say that this is the moment to look at the processes, and wait until somebody did."""
    READY.touch()
    deadline = time.monotonic() + 60
    while not GO.exists() and time.monotonic() < deadline:
        time.sleep(0.05)


peeking = Pipeline.of_task(tell)
looking = Pipeline.of_task(look)
dying = Pipeline.of_task(die)
