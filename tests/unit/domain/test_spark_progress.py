import pytest

from perago.domain.spark_progress import NO_SPARK_PROGRESS, SparkProgress, SparkStage

COUNTING = SparkStage(name="count", tasks=2, tasks_done=1)
WRITING = SparkStage(name="write at clean.py:41", tasks=40, tasks_done=12)


@pytest.mark.parametrize(
    ("progress", "words"),
    [
        (
            SparkProgress(jobs=2, stages=5, stages_done=2, tasks_done=30, active=(WRITING,)),
            "Spark stage 3 of 5 (write at clean.py:41), 12/40 tasks",
        ),
        (
            SparkProgress(jobs=2, stages=5, stages_done=2, tasks_failed=1, active=(COUNTING,) * 3),
            "Spark stage 3 of 5 (count), 1/2 tasks, 2 more beside it, 1 failed task",
        ),
        (
            # The counts come one after the other: a stage may have ended in between.
            SparkProgress(jobs=1, stages=1, stages_done=1, active=(WRITING,)),
            "Spark stage 1 of 1 (write at clean.py:41), 12/40 tasks",
        ),
        (
            SparkProgress(jobs=1, active=(SparkStage(name="", tasks=1, tasks_done=0),)),
            "Spark stage 1 of 1, 0/1 tasks",
        ),
        (
            SparkProgress(jobs=2, stages=3, stages_done=3, tasks_done=30),
            "Spark: 2 jobs, 3 stages, 30 tasks",
        ),
    ],
)
def test_what_spark_does_now_in_words(progress: SparkProgress, words: str) -> None:
    assert progress.describe() == words


def test_what_spark_did_in_words() -> None:
    total = SparkProgress(jobs=14, stages=37, stages_done=37, tasks_done=412, tasks_failed=3)

    assert total.describe_total() == "Spark: 14 jobs, 37 stages, 412 tasks, 3 failed tasks"
    one = SparkProgress(jobs=1, stages=1, stages_done=1, tasks_done=1)
    assert one.describe_total() == "Spark: 1 job, 1 stage, 1 task"
    assert NO_SPARK_PROGRESS.describe_total() == "Spark: 0 jobs, 0 stages, 0 tasks"
