"""How work is asked for of a real server, with several names and several at a time."""

from __future__ import annotations

import threading

import pytest

from tests.integration.conductor.faulty_conductor import FaultyConductor

pytestmark = pytest.mark.conductor


def test_several_come_at_once_although_more_were_asked_for(conductor: FaultyConductor) -> None:
    for _ in range(3):
        conductor.start()
    assert len(conductor.poll(count=10, wait_seconds=5)) == 3
    assert conductor.proxy.count("GET", r"/tasks/poll/") == 1


def test_no_name_starves_beside_a_full_one(conductor: FaultyConductor) -> None:
    conductor.register("rare")
    for _ in range(4):
        conductor.start()
    conductor.start("rare")
    taken = [conductor.poll("task", "rare")[0].attempt.task_name for _ in range(2)]
    assert conductor.name("rare") in taken


def test_one_request_for_each_name_and_no_more(conductor: FaultyConductor) -> None:
    conductor.register("other")
    conductor.poll("task", "other", "task")
    assert conductor.proxy.count("GET", r"/tasks/poll/") == 2


def test_waiting_for_several_names_finds_either(conductor: FaultyConductor) -> None:
    conductor.register("other")
    for word in ("task", "other"):
        later = threading.Timer(0.5, conductor.start, args=(word,))
        later.start()
        (task,) = conductor.poll("task", "other", count=3, wait_seconds=20)
        later.join()
        assert task.attempt.task_name == conductor.name(word)


def test_a_longer_wait_than_the_server_takes_is_made_of_several(
    conductor: FaultyConductor,
) -> None:
    assert conductor.poll(wait_seconds=6) == []
    polls = [exchange for exchange in conductor.proxy.log if "/poll/" in exchange.target]
    assert {exchange.status for exchange in polls} == {200}
    waits = [int(exchange.target.rpartition("timeout=")[2]) for exchange in polls]
    assert waits[:2] == [0, 5000]
