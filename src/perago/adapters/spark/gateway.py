"""The JVM that Spark runs in: a child of this process that ends with it.

pyspark keeps one gateway, context and session per Python process in class attributes. This module
is the only one that sets them. Invariant: they belong to the JVM that was started or adopted last;
ending another leaves them alone.
"""

from __future__ import annotations

import importlib.util
import logging
import os
import signal
import subprocess
import sys
import threading
import warnings
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

from perago.adapters.localfs.java import JavaInstallation
from perago.adapters.spark.cluster import explain_refusal, require_executor, require_master
from perago.adapters.spark.environment import environment_of
from perago.adapters.spark.s3a import require_s3a
from perago.adapters.spark.scratch import make_scratch, remove_scratch
from perago.adapters.spark.settings import LOG_CONFIGURATION_NAME, is_local, select_launch_conf
from perago.domain.errors import EnvironmentUnfitError
from perago.system.directories import make_private_directories

if TYPE_CHECKING:
    from py4j.java_gateway import JavaGateway
    from pyspark import SparkContext
    from pyspark.sql import SparkSession

LOG_CONFIGURATION = """\
# Warnings and errors, without those that every start on one machine gives.
rootLogger.level = warn
rootLogger.appenderRef.console.ref = console

appender.console.type = Console
appender.console.name = console
appender.console.target = SYSTEM_ERR
appender.console.layout.type = PatternLayout
appender.console.layout.pattern = %d{yyyy-MM-dd HH:mm:ss} %p %c{1}: %m%n%ex

# The same level as the root's: else the start says that it sets it.
logger.shell.name = org.apache.spark.repl.Main
logger.shell.level = warn
logger.native.name = org.apache.hadoop.util.NativeCodeLoader
logger.native.level = error
logger.conf.name = org.apache.spark.SparkConf
logger.conf.level = error
logger.host.name = org.apache.spark.util.Utils
logger.host.level = error
# Looks for a streaming log at every path that is read, patterns too, and warns about each.
logger.sink.name = org.apache.spark.sql.execution.streaming.sinks.FileStreamSink
logger.sink.level = error
# A query plan too wide to print is no trouble.
logger.plan.name = org.apache.spark.sql.catalyst.util.SparkStringUtils
logger.plan.level = error
"""

_END_SECONDS = 10.0


def require_pyspark() -> None:
    """Raise unless pyspark is installed."""
    if importlib.util.find_spec("pyspark") is None:
        raise EnvironmentUnfitError(
            "pyspark is not installed, and this task runs on Spark",
            hint="pip install 'perago-runtime[spark]'",
        )


class SparkJvm:
    """One running JVM with one Spark context and the session that attempts' sessions branch from.

    Make it with `start_jvm`.
    """

    def __init__(self, gateway: JavaGateway, context: SparkContext, root: SparkSession) -> None:
        self._gateway = gateway
        self.context = context
        self.root = root

    @property
    def pid(self) -> int:
        """The JVM's process."""
        process: subprocess.Popen[bytes] = self._gateway.proc
        return process.pid

    @property
    def is_usable(self) -> bool:
        """Whether the JVM lives and nobody has stopped its context."""
        from py4j.protocol import Py4JError

        if self._gateway.proc.poll() is not None or self.context._jsc is None:  # noqa: SLF001
            return False
        try:
            return not self.context._jsc.sc().isStopped()  # noqa: SLF001
        except (Py4JError, OSError):
            # It is just dying.
            return False

    def adopt(self) -> None:
        """Make it the JVM that pyspark uses in this process."""
        _set_pyspark(self._gateway, self.context, self.root)

    def stop(self) -> None:
        """End the context and the JVM, whatever state they are in."""
        from pyspark import SparkContext
        from pyspark.sql import SparkSession

        others = (
            SparkContext._gateway,  # noqa: SLF001
            SparkContext._active_spark_context,  # noqa: SLF001
            SparkSession._instantiatedSession,  # noqa: SLF001
        )
        if not self.is_usable:
            # Nobody is there to be told; pyspark then ends its own side only.
            self.context._jsc = None  # noqa: SLF001
        with warnings.catch_warnings(), suppress(OSError):
            # A JVM that dies at this very moment is no trouble either.
            warnings.simplefilter("ignore")
            self.context.stop()
        end_gateway(self._gateway)
        if others[0] is self._gateway:
            _set_pyspark(None, None, None)
        else:
            _set_pyspark(*others)


def start_jvm(
    conf: Mapping[str, str], java: JavaInstallation, *, scratch: Path, log: Path | None
) -> SparkJvm:
    """Start a JVM and Spark in it; its own output goes to `log`, not to this process's."""
    from py4j.protocol import Py4JError
    from pyspark import SparkConf, SparkContext
    from pyspark.errors import PySparkException
    from pyspark.sql import SparkSession

    require_master(conf.get("spark.master", ""))
    prepare_scratch(scratch)
    # At level DEBUG it logs every call, which nobody can read.
    logging.getLogger("py4j").setLevel(logging.WARNING)
    _set_pyspark(None, None, None)
    gateway = None
    try:
        with environment_of(_spark_environment(java, conf)), kept_interrupt_handler():
            gateway = _launch(conf, log)
            spark_conf = SparkConf(loadDefaults=True, _jvm=gateway.jvm)
            spark_conf.setAll(list(conf.items()))
            context = SparkContext(conf=spark_conf, gateway=gateway)
            jvm = SparkJvm(gateway, context, SparkSession(context))
    except (Py4JError, PySparkException) as error:
        # Read now: a Java error is asked for its text, and nobody answers once the JVM is gone.
        reason = explain_refusal(conf.get("spark.master", ""), _reason(error))
        if gateway is not None:
            end_gateway(gateway)
        _set_pyspark(None, None, None)
        raise EnvironmentUnfitError(
            f"Spark did not start on Java {java.version} at {java.home}: {reason}",
            hint="check the Spark settings" + (f"; its own log is {log}" if log else ""),
        ) from None
    try:
        require_s3a(context, conf)
        require_executor(context)
    except (Py4JError, OSError, EnvironmentUnfitError):
        jvm.stop()
        raise
    return jvm


def prepare_scratch(scratch: Path) -> None:
    """Make the directory that Spark works in, empty but for its log configuration."""
    remove_scratch(scratch)
    make_scratch(scratch)
    for name in ("local", "warehouse", "tmp"):
        (scratch / name).mkdir(exist_ok=True)
    (scratch / LOG_CONFIGURATION_NAME).write_text(LOG_CONFIGURATION, encoding="utf-8")


def end_gateway(gateway: JavaGateway) -> None:
    """End a JVM: its standard input closes, which it watches; if that does not do, by force."""
    from py4j.protocol import Py4JError

    with suppress(Py4JError, OSError):
        gateway.shutdown()
    process: subprocess.Popen[bytes] = gateway.proc
    if process.stdin is not None:
        with suppress(OSError):
            process.stdin.close()
    try:
        process.wait(_END_SECONDS)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def _set_pyspark(
    gateway: JavaGateway | None, context: SparkContext | None, session: SparkSession | None
) -> None:
    from pyspark import SparkContext
    from pyspark.sql import SparkSession

    SparkContext._gateway = gateway  # noqa: SLF001
    SparkContext._jvm = None if gateway is None else gateway.jvm  # noqa: SLF001
    SparkContext._active_spark_context = context  # noqa: SLF001
    SparkSession._instantiatedSession = session  # noqa: SLF001
    SparkSession._activeSession = session  # noqa: SLF001


def _reason(error: Exception) -> str:
    """The line of a Java or Python error that names the cause."""
    lines = str(error).strip().splitlines()
    return next((line.strip() for line in lines if "Exception: " in line), lines[0])


def _launch(conf: Mapping[str, str], log: Path | None) -> JavaGateway:
    from pyspark import SparkConf
    from pyspark.java_gateway import launch_gateway

    launch_conf = SparkConf(loadDefaults=False)
    launch_conf.setAll(list(select_launch_conf(conf).items()))
    with ExitStack() as stack:
        output = {}
        if log is not None:
            make_private_directories(log.parent)
            stream = stack.enter_context(open(log, "ab", opener=_open_private))
            output = {"stdout": stream, "stderr": stream}
        return launch_gateway(launch_conf, popen_kwargs=output)  # type: ignore[no-untyped-call]


def _open_private(path: str, flags: int) -> int:
    return os.open(path, flags, 0o600)


def _spark_environment(java: JavaInstallation, conf: Mapping[str, str]) -> dict[str, str]:
    import pyspark

    environment = {
        "JAVA_HOME": str(java.home),
        "PYSPARK_PYTHON": _python_of_workers(conf),
        "PYSPARK_DRIVER_PYTHON": sys.executable,
    }
    package = Path(pyspark.__file__).parent
    if (package / "jars").is_dir():
        # A SPARK_HOME of another release would be started with this release's Python side.
        environment["SPARK_HOME"] = str(package)
    return environment


def _python_of_workers(conf: Mapping[str, str]) -> str:
    """Which Python runs functions in Spark: this one, or on a cluster what the user says."""
    own = None if is_local(conf["spark.master"]) else os.environ.get("PYSPARK_PYTHON")
    # Unless it is named, Spark's Python workers are whatever `python3` is on PATH.
    return conf.get("spark.pyspark.python") or own or sys.executable


@contextmanager
def kept_interrupt_handler() -> Iterator[None]:
    """Undo that pyspark takes over SIGINT: signals are the business of the executor process."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.getsignal(signal.SIGINT)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
