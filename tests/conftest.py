"""Rules for every test: what is deselected, what is skipped, and when a skip is a failure.

`PERAGO_REQUIRE_ALL=1` says that everything a test can need is on this machine: a skipped test then
fails the session.
"""

import gc
import os
import signal
import sys
from collections.abc import Generator, Iterator
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import settings

from perago.adapters.servers import (
    Binary,
    ConductorProgram,
    ThrowawayLakeFS,
    throwaway_lakefs,
)
from perago.adapters.spark import DELTA, S3A, JarCache
from perago.adapters.spark.java import find_java
from perago.domain.errors import EnvironmentUnfitError
from perago.settings import resolve_settings
from tests.session_report import Figures, RequireAll, ResultFiles, Slowest
from tests.spark_archive import JAVA_VARIABLE, java_options

if TYPE_CHECKING:
    from tests.conductor_server import SharedConductor
    from tests.spark_cluster import SparkCluster
    from tests.spark_connect import ConnectServer

# What modules beside the tests assert is explained, too.
pytest.register_assert_rewrite("tests.acceptance", "tests.integration", "tests.contract")

ON_A_CLUSTER = frozenset({"test_cluster", "test_cluster_trouble"})
"""Modules in the folder `direct` that share a cluster with the flights, not a Spark with it."""

IN_CI = bool(os.environ.get("CI"))

# No deadlines: a slow machine is not a bug. CI repeats the same examples on every run.
settings.register_profile(
    "perago", deadline=None, derandomize=IN_CI, database=None if IN_CI else settings().database
)
settings.register_profile(
    "torture", deadline=None, derandomize=False, max_examples=2_000, print_blob=True
)
settings.load_profile("perago")


def _normalize_process() -> None:
    """Reset what processes inherit, so that tests do not depend on how pytest was started."""
    # A shell's background jobs ignore SIGINT, and so would every process that a test starts.
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    os.umask(0o022)
    # Where it is set, each of a thousand processes compiles all of Perago again.
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    sys.dont_write_bytecode = False
    if JAVA_VARIABLE not in os.environ and (options := java_options()) is not None:
        os.environ[JAVA_VARIABLE] = options


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--results", metavar="DIRECTORY", help="write what failed and took how long")


def pytest_configure(config: pytest.Config) -> None:
    _normalize_process()
    on_xdist_worker = hasattr(config, "workerinput")
    if on_xdist_worker:
        return
    config.pluginmanager.register(Figures(), "perago-figures")
    slowest = Slowest(processes=config.getoption("numprocesses", None) or 1)
    config.pluginmanager.register(slowest, "perago-slowest")
    if directory := config.getoption("--results"):
        config.pluginmanager.register(ResultFiles(Path(directory), slowest), "perago-results")
    if os.environ.get("PERAGO_REQUIRE_ALL"):
        config.pluginmanager.register(RequireAll(), "perago-require-all")


# First, for xdist reads the groups in this hook, too.
@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Group Spark's tests, ignore pyspark's unclosed sockets, run torture only if -m names it."""
    for item in items:
        if item.get_closest_marker("spark"):
            item.add_marker(pytest.mark.xdist_group(_group_of_spark(item.path)))
            # pyspark leaves the sockets over which it fetches results to the garbage collector.
            item.add_marker(pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning"))
    if "torture" in config.getoption("markexpr", ""):
        return
    torture = [item for item in items if item.get_closest_marker("torture")]
    if torture:
        config.hook.pytest_deselected(items=torture)
        items[:] = [item for item in items if item not in torture]


def _group_of_spark(file: Path) -> str:
    """Which of two processes runs a test with Spark: more at a time wait for each other's cores.

    In the first one are the tests that share a warm Spark; in the second one those on clusters and
    Connect servers, and all whose Spark is started by a worker.
    """
    is_far = file.stem in ON_A_CLUSTER or file.parent.name not in {"spark", "direct"}
    return "far Spark" if is_far else "near Spark"


def pytest_runtest_setup(item: pytest.Item) -> None:
    if item.get_closest_marker("spark") and (missing := missing_java()):
        pytest.skip(missing)
    if item.get_closest_marker("lakefs") and (missing := missing_lakefs()):
        pytest.skip(missing)
    if item.get_closest_marker("conductor") and (missing := missing_conductor()):
        pytest.skip(missing)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_teardown(item: pytest.Item) -> Generator[None, None, None]:
    yield
    if item.get_closest_marker("spark"):
        # Collect those sockets here, where they are forgiven, and not in a later test.
        gc.collect()


@cache
def missing_java() -> str | None:
    """Why Spark cannot run here, or None if it can."""
    try:
        find_java(os.environ)
    except EnvironmentUnfitError as error:
        return error.message
    return None


@cache
def missing_lakefs() -> str | None:
    """Why no lakeFS server can run here, or None if one can."""
    from tests.lakefs_server import MISSING, find_lakefs

    return MISSING if find_lakefs() is None else None


@pytest.fixture(scope="session")
def lakefs_binary() -> Binary:
    """The server's program, for tests that start servers of their own."""
    from tests.lakefs_server import MISSING, find_lakefs

    return find_lakefs() or pytest.skip(MISSING)


@pytest.fixture(scope="session")
def lakefs_server(
    lakefs_binary: Binary, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[ThrowawayLakeFS]:
    """A server for all tests of this process: leave it running, in repositories of your own."""
    with throwaway_lakefs(tmp_path_factory.mktemp("lakefs") / "server", lakefs_binary) as server:
        yield server


@pytest.fixture(scope="session")
def s3a_jars() -> list[Path]:
    """The jars with which Spark reaches lakeFS: found, never got, for that takes a network."""
    cache = JarCache(resolve_settings().settings.cache_directory / "spark")
    return cache.find(S3A) or pytest.skip("needs the jars of S3A: run `perago jars`")


@pytest.fixture(scope="session")
def delta_jars() -> list[Path]:
    """The jars of Delta Lake: found, never got."""
    cache = JarCache(resolve_settings().settings.cache_directory / "spark")
    needed = "needs the jars of Delta Lake: run `PERAGO_SPARK_TABLES=delta perago jars`"
    return cache.find(DELTA) or pytest.skip(needed)


def missing_conductor() -> str | None:
    """Why no Conductor server can run here, or None if one can."""
    from tests.conductor_server import look_for_conductor

    found = look_for_conductor()
    return found if isinstance(found, str) else None


@pytest.fixture(scope="session")
def conductor_program() -> ConductorProgram:
    """The server's program, for tests that start servers of their own."""
    from tests.conductor_server import look_for_conductor

    found = look_for_conductor()
    return pytest.skip(found) if isinstance(found, str) else found


@pytest.fixture(scope="session")
def conductor_server(
    conductor_program: ConductorProgram, tmp_path_factory: pytest.TempPathFactory
) -> "Iterator[SharedConductor]":
    """A server for all tests of this session: leave it running, with names of your own."""
    from tests.conductor_server import share_conductor

    base = tmp_path_factory.getbasetemp()
    on_xdist_worker = "PYTEST_XDIST_WORKER" in os.environ
    with share_conductor((base.parent if on_xdist_worker else base) / "conductor") as server:
        yield server


@pytest.fixture(scope="session")
def started_spark_cluster(tmp_path_factory: pytest.TempPathFactory) -> "Iterator[SparkCluster]":
    from tests.spark_cluster import spark_cluster

    with spark_cluster(tmp_path_factory.mktemp("cluster")) as running:
        yield running


@pytest.fixture
def cluster(started_spark_cluster: "SparkCluster") -> "SparkCluster":
    """A master and two workers for all tests of this process; workers may be killed."""
    started_spark_cluster.restore()
    return started_spark_cluster


@pytest.fixture(scope="session")
def connect_server(
    tmp_path_factory: pytest.TempPathFactory, s3a_jars: list[Path], delta_jars: list[Path]
) -> "Iterator[ConnectServer]":
    """A Spark Connect server with S3A and Delta for all tests of this process."""
    from tests.spark_connect import connect_server_of_the_tests

    place = tmp_path_factory.mktemp("connect")
    with connect_server_of_the_tests(place, [*s3a_jars, *delta_jars]) as running:
        yield running


@pytest.fixture(scope="session")
def project_root() -> Path:
    return Path(__file__).parent.parent
