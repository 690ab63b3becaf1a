"""What another user of this machine can have of an attempt's Spark: its port is open to all."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from py4j.java_gateway import JavaGateway, JavaObject
from py4j.protocol import Py4JError, Py4JJavaError
from pyspark.sql import SparkSession

from tests.integration.spark.conftest import Lease

pytestmark = pytest.mark.spark


@contextlib.contextmanager
def stranger(java: Any) -> Iterator[JavaObject]:
    """Spark's own client as another process has it: with no secret."""
    conf = java.org.apache.spark.SparkConf(False)
    conf.set("spark.rpc.askTimeout", "5s")
    managers = java.org.apache.spark.SecurityManager
    parameters = (
        java.java.lang.Class.forName("org.apache.spark.SecurityManager")
        .getConstructors()[0]
        .getParameterCount()
    )
    defaults = [
        getattr(managers, f"$lessinit$greater$default${number}")()
        for number in range(2, parameters + 1)
    ]
    client = java.org.apache.spark.rpc.RpcEnv.create(
        "stranger", "127.0.0.1", 0, conf, managers(conf, *defaults), True
    )
    try:
        yield client
    finally:
        client.shutdown()


def ask_driver(spark: SparkSession, java: Any, client: JavaObject) -> str:
    port = int(spark.sparkContext.getConf().get("spark.driver.port") or 0)
    address = java.org.apache.spark.rpc.RpcAddress("127.0.0.1", port)
    return str(client.setupEndpointRef(address, "HeartbeatReceiver").toString())


def test_spark_takes_no_orders_from_strangers(lease: Lease) -> None:
    with lease() as held:
        spark = held.session
        java = spark.sparkContext._jvm
        with stranger(java) as client, pytest.raises(Py4JJavaError, match="Exception thrown"):
            ask_driver(spark, java, client)
        assert spark.range(10).count() == 10


def test_its_secret_is_in_its_memory_alone(lease: Lease) -> None:
    with lease() as held:
        context = held.session.sparkContext
        java: Any = context._jvm
        manager = java.org.apache.spark.SparkEnv.get().securityManager()
        secret = str(manager.getSecretKey())
        assert len(secret) >= 32
        gateway: Any = context._gateway
        shown = [
            str(context.getConf().getAll()),
            str(dict(java.System.getProperties())),
            str(dict(java.System.getenv())),
            (Path("/proc") / str(gateway.proc.pid) / "cmdline").read_text(),
        ]
    assert not any(secret in text for text in shown)


def test_the_gateway_to_java_asks_who_is_there(lease: Lease) -> None:
    with lease() as held:
        ours: Any = held.session.sparkContext._gateway
        parameters = ours.gateway_parameters
        other = JavaGateway(gateway_parameters=type(parameters)(port=parameters.port))
        with pytest.raises(Py4JError, match="Authentication error"):
            other.jvm.System.currentTimeMillis()
        other.close()
