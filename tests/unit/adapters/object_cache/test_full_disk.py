"""No more room, at any moment: the cache gives up quietly, the target's disk does not."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.unit.adapters.object_cache.bench import Bench, digest_of, object_files

PRELUDE = """
import errno, logging, resource, signal, sys
from pathlib import Path
from perago.domain.errors import EnvironmentUnfitError
from tests.unit.adapters.object_cache.bench import Bench, begin, digest_of, keep

logging.basicConfig(stream=sys.stdout, format="%(levelname)s %(message).40s")
bench = Bench(Path(sys.argv[1]), Path(sys.argv[2]))

def limit(size):
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, resource.RLIM_INFINITY))

signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
SMALL, LARGE = b"s" * 5_000, b"l" * 300_000
"""

AT_A_WRITE = """
bench.cache.usage()
limit(150_000)
with bench.cache.intake() as intake:
    assert keep(intake, "one", SMALL)
    other = begin(intake, 10)
    writer = begin(intake, len(LARGE))
    for start in range(0, len(LARGE), 1000):
        writer.write(LARGE[start:start + 1000])
    print(intake.begin(1))
    writer.keep("large", digest_of(LARGE))
    # What was begun before goes on.
    other.write(b"0123456789")
    other.keep("two", digest_of(b"0123456789"))
print(*sorted(bench.cache.find(["one", "two", "large"])))
"""

AT_THE_INDEX = """
if sys.argv[3] == "opened":
    bench.cache.usage()
limit(1000)
with bench.cache.intake() as intake:
    assert keep(intake, "one", b"1")
print(bench.cache.find(["one"]))
try:
    bench.cache.usage()
except EnvironmentUnfitError as error:
    print("unfit")
"""

AT_AN_EVICTION = """
bench.fill({"small": SMALL, "large": LARGE})
limit(1000)
bench.cache.give_way(bench.files, 1 << 60)
"""

AT_THE_TARGET = """
bench.fill({"small": SMALL, "large": LARGE})
limit(1000)
for content in (SMALL, LARGE):
    try:
        bench.deliver(content)
    except OSError as error:
        print(errno.errorcode[error.errno], list(bench.files.iterdir()))
limit(resource.RLIM_INFINITY)
print(bench.deliver(SMALL), bench.deliver(LARGE))
"""


def run_out_of_space(bench: Bench, project_root: Path, script: str, *arguments: str) -> list[str]:
    program = f"{PRELUDE}{script}\nbench.cache.close()\n"
    answer = subprocess.run(
        [sys.executable, "-c", program, str(bench.directory), str(bench.files), *arguments],
        cwd=project_root,
        capture_output=True,
        text=True,
        check=False,
    )
    assert answer.returncode == 0, answer.stdout + answer.stderr
    return answer.stdout.splitlines()


def assert_recovers(bench: Bench) -> None:
    assert bench.debris() == []
    bench.fill({"after": b"after"})
    assert bench.deliver(b"after")
    assert bench.debris() == []
    bench.check()


def test_a_write_that_fails_ends_the_intake_quietly(bench: Bench, project_root: Path) -> None:
    said = run_out_of_space(bench, project_root, AT_A_WRITE)
    assert said == ["WARNING nothing more of this checkout is cached:", "None", "one two"]
    assert bench.deliver(b"0123456789")
    assert_recovers(bench)


@pytest.mark.parametrize("opened", ["opened", "new"])
def test_an_index_that_cannot_be_written_fails_nothing(
    bench: Bench, project_root: Path, opened: str
) -> None:
    said = run_out_of_space(bench, project_root, AT_THE_INDEX, opened)
    assert said[0].startswith("WARNING the object cache in ")
    assert "{}" in said
    if opened == "new":
        assert said[-1] == "unfit"
    assert_recovers(bench)


def test_room_is_given_also_where_the_index_cannot_be_written(
    bench: Bench, project_root: Path
) -> None:
    said = run_out_of_space(bench, project_root, AT_AN_EVICTION)
    assert said[0].startswith("WARNING the object cache in ")
    assert object_files(bench.directory) == {}
    assert_recovers(bench)


def test_a_full_disk_at_the_target_is_told(bench: Bench, project_root: Path) -> None:
    said = run_out_of_space(bench, project_root, AT_THE_TARGET)
    assert said == ["EFBIG []", "EFBIG []", "True True"]
    assert bench.cache.find(["small"]) == {"small": digest_of(b"s" * 5_000)}
