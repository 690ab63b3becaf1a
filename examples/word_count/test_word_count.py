"""How a task is tested: with no server, on the real attempt runner."""

from collections.abc import Iterator

import pytest
from word_count import CountParams, count_words

from perago.ports import Failpoint
from perago.testing import TaskEnvironment


@pytest.fixture
def env() -> Iterator[TaskEnvironment]:
    with TaskEnvironment() as environment:
        environment.put({"library/texts/a.txt": "one two two", "elsewhere/x": "not ours"})
        yield environment


def test_counts_are_published(env: TaskEnvironment) -> None:
    run = env.run(count_words, CountParams(min_length=3))

    assert run.published
    assert run.result == {"texts": 1, "words": 2}
    assert run.files["library/counts.csv"] == b"word,times\r\none,1\r\ntwo,2\r\n"


def test_an_unchanged_rerun_makes_no_commit(env: TaskEnvironment) -> None:
    env.run(count_words, CountParams())

    assert not env.run(count_words, CountParams()).published


def test_a_broken_input_is_terminal() -> None:
    with TaskEnvironment() as empty:
        run = empty.run(count_words, CountParams())

    assert run.status == "FAILED_WITH_TERMINAL_ERROR"
    assert "texts/*.txt" in run.reason


def test_a_branch_that_moved_is_left_alone(env: TaskEnvironment) -> None:
    run = env.run(count_words, CountParams(), at={Failpoint.FENCED_BEFORE_ACT: env.move_head})

    assert not run.published
    assert "library/counts.csv" not in run.files
