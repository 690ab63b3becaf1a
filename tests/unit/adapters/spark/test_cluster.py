"""Whether a cluster is there, and what a start that failed means."""

import socket
import threading
from collections.abc import Iterator
from contextlib import closing

import pytest

from perago.adapters.spark.cluster import explain_refusal, require_master
from perago.domain.errors import EnvironmentUnfitError

STOPPED = "java.lang.IllegalStateException: Cannot call methods on a stopped SparkContext."


def test_a_cluster_that_does_not_answer_is_named() -> None:
    explained = explain_refusal("spark://host:7077", STOPPED)
    assert explained.startswith("the cluster spark://host:7077 did not answer, or turned it down")
    assert STOPPED in explained


def test_other_words_of_sparks_are_kept() -> None:
    assert explain_refusal("local[x]", "Could not parse Master URL") == "Could not parse Master URL"


@pytest.fixture
def silent() -> Iterator[socket.socket]:
    """A port that is taken, and where nobody listens yet."""
    with closing(socket.socket()) as taken:
        taken.bind(("127.0.0.1", 0))
        yield taken


def address_of(taken: socket.socket) -> str:
    return f"127.0.0.1:{taken.getsockname()[1]}"


def test_a_master_that_takes_no_connection_is_told(silent: socket.socket) -> None:
    with pytest.raises(EnvironmentUnfitError, match=address_of(silent)) as raised:
        require_master(f"spark://{address_of(silent)}", seconds=0.1)
    assert "cannot be reached" in raised.value.message
    assert "PERAGO_SPARK_MASTER" in (raised.value.hint or "")


def test_a_master_that_comes_in_time_is_waited_for(silent: socket.socket) -> None:
    threading.Timer(0.2, silent.listen).start()
    require_master(f"spark://{address_of(silent)}", seconds=30)


def test_one_of_several_masters_is_enough(silent: socket.socket) -> None:
    with socket.create_server(("127.0.0.1", 0)) as there:
        require_master(f"spark://{address_of(silent)},{address_of(there)}", seconds=0.1)


@pytest.mark.parametrize("address", ["a..b:7077", "127.0.0.1:77777"])
def test_an_address_that_cannot_be_is_told(address: str) -> None:
    with pytest.raises(EnvironmentUnfitError, match="cannot be reached"):
        require_master(f"spark://{address}", seconds=0.1)


@pytest.mark.parametrize("master", ["local[2]", "yarn", "k8s://https://host:443", "spark://host"])
def test_what_is_no_address_of_a_master_is_left_to_spark(master: str) -> None:
    require_master(master, seconds=0.1)
