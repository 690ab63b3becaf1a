"""Laws of the stable file names."""

from pathlib import PurePosixPath
from uuid import UUID

from hypothesis import given
from hypothesis import strategies as st

from perago.adapters.spark.table_files import plan_names

directories = st.sampled_from(["", "m=1/", "m=2/", "m=2/k=a b/"])
numbers = st.integers(0, 99_999)
written = st.sets(st.tuples(directories, numbers, st.integers(0, 20)), max_size=20)
existing = st.sets(st.tuples(directories, numbers), max_size=10)


def spark_name(job: UUID, part: tuple[str, int, int]) -> str:
    directory, task, chunk = part
    return f"{directory}part-{task:05d}-{job}-c{chunk:03d}.snappy.parquet"


@given(written, existing, st.uuids(), st.uuids())
def test_names_do_not_depend_on_the_job(
    parts: set[tuple[str, int, int]],
    there: set[tuple[str, int]],
    job: UUID,
    other_job: UUID,
) -> None:
    old = [f"{directory}part-{number:05d}.csv" for directory, number in there]
    one = plan_names([spark_name(job, part) for part in parts], old)
    other = plan_names([spark_name(other_job, part) for part in sorted(parts, reverse=True)], old)
    assert sorted(one.values()) == sorted(other.values())


@given(written, existing, st.uuids())
def test_every_file_gets_a_free_name_in_its_directory_and_order(
    parts: set[tuple[str, int, int]], there: set[tuple[str, int]], job: UUID
) -> None:
    old = [f"{directory}part-{number:05d}.snappy.parquet" for directory, number in there]
    names = plan_names([spark_name(job, part) for part in parts], old)
    assert len(names) == len(parts)
    assert len({*names.values(), *old}) == len(parts) + len(old)
    for source, target in names.items():
        assert PurePosixPath(source).parent == PurePosixPath(target).parent
    in_order = [names[spark_name(job, part)] for part in sorted(parts)]
    for directory in {part[0] for part in parts}:
        own = [name for name in in_order if name.rpartition("part-")[0] == directory]
        assert own == sorted(own, key=lambda name: int(name.rpartition("part-")[2].split(".")[0]))
