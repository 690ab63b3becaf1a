"""The home directory: set up once, by whoever comes first, and refused when it is unfit."""

import os
import pickle
import shutil
import sqlite3
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path

import pytest

from perago.adapters.embedded.store import Durability, EmbeddedWorkspaceStore
from perago.domain.errors import EnvironmentUnfitError, StoreUnavailableError
from perago.domain.ids import BranchName, CommitId, RepositoryName
from perago.testing.clock import FakeClock
from tests.unit.adapters.embedded.store.conftest import LARGE, MAIN, REPOSITORY, Bench


def test_nothing_is_written_before_the_first_use(tmp_path: Path) -> None:
    with EmbeddedWorkspaceStore(tmp_path / "home", FakeClock()):
        pass
    assert not (tmp_path / "home").exists()


def test_a_home_is_kept_between_openings(bench: Bench) -> None:
    commit = bench.commit({"a": b"1", "b": LARGE})
    bench.store.close()
    with EmbeddedWorkspaceStore(bench.home, bench.clock) as again:
        assert again.head(REPOSITORY, MAIN) == commit


def test_a_store_can_be_used_after_close(bench: Bench) -> None:
    commit = bench.commit({"a": b"1"})
    bench.store.close()
    bench.store.close()
    assert bench.store.head(REPOSITORY, MAIN) == commit


def test_close_in_the_middle_of_a_write_lets_it_finish(bench: Bench) -> None:
    commit = bench.commit({"a": b"1"}, on_transfer=lambda _objects, _size: bench.store.close())
    assert bench.store.head(REPOSITORY, MAIN) == commit


def test_a_store_can_be_sent_to_another_process(bench: Bench) -> None:
    commit = bench.commit({"a": b"1"})
    script = (
        "import pickle, sys\n"
        "with pickle.load(sys.stdin.buffer) as store:\n"
        "    print(store.head('repo', 'main').id)\n"
    )
    store = EmbeddedWorkspaceStore(bench.home, _PlainClock(), durability=Durability.POWER)
    answer = subprocess.run(
        [sys.executable, "-c", script],
        input=pickle.dumps(store),
        capture_output=True,
        check=True,
        cwd=Path(__file__).parents[5],
    )
    assert answer.stdout.decode().strip() == commit.id


class _PlainClock(FakeClock):
    def __reduce__(self) -> tuple[type[FakeClock], tuple[()]]:
        return FakeClock, ()


def test_a_relative_home_stays_where_it_was(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    store = EmbeddedWorkspaceStore(Path("home"), FakeClock())
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    with store:
        store.create_repository(REPOSITORY)
    assert (tmp_path / "home").is_dir()


def test_many_openers_set_a_home_up_once(tmp_path: Path) -> None:
    home, clock = tmp_path / "home", FakeClock()
    stores = [EmbeddedWorkspaceStore(home, clock) for _ in range(8)]
    with ThreadPoolExecutor(8) as pool:
        list(
            pool.map(
                lambda pair: pair[1].create_repository(RepositoryName(f"r{pair[0]}")),
                enumerate(stores),
            )
        )
    assert len(stores[0].repositories()) == 8
    for store in stores:
        store.close()


def test_a_home_that_is_a_file_is_refused(tmp_path: Path) -> None:
    home = tmp_path / "home"
    home.touch()
    with pytest.raises(EnvironmentUnfitError, match=str(home)) as caught:
        EmbeddedWorkspaceStore(home, FakeClock()).repositories()
    assert "PERAGO_HOME" in str(caught.value.hint)
    with pytest.raises(EnvironmentUnfitError, match=str(home)):
        EmbeddedWorkspaceStore(home / "below", FakeClock()).repositories()


READ_ONLY = """
import os, sys
from pathlib import Path
from perago.adapters.embedded.store import EmbeddedWorkspaceStore
from perago.adapters.localfs.clock import SystemClock
from perago.domain.errors import EnvironmentUnfitError

if os.geteuid() == 0:
    os.setgroups([])
    os.setgid(65534)
    os.setuid(65534)
store = EmbeddedWorkspaceStore(Path(sys.argv[1]), SystemClock())
try:
    print("read", store.repositories())
except EnvironmentUnfitError as error:
    print("refused", error)
"""


@pytest.fixture
def public_directory() -> Iterator[Path]:
    """A directory that another user can reach."""
    path = Path(tempfile.mkdtemp(prefix="perago-home-"))
    path.chmod(0o755)
    yield path
    for directory in (path, *path.rglob("*")):
        if directory.is_dir():
            directory.chmod(0o755)
    shutil.rmtree(path)


@pytest.mark.parametrize("existing", [False, True], ids=["no home yet", "a home"])
def test_a_read_only_home_is_refused_naming_it(public_directory: Path, existing: bool) -> None:
    home = public_directory / "home"
    if existing:
        with EmbeddedWorkspaceStore(home, FakeClock()) as store:
            store.create_repository(REPOSITORY)
        for path in (*home.rglob("*"), home):
            path.chmod(0o555 if path.is_dir() else 0o444)
    public_directory.chmod(0o555)
    answer = subprocess.run(
        [sys.executable, "-c", READ_ONLY, home], capture_output=True, text=True, check=True
    )
    assert answer.stdout.startswith(f"refused {home} cannot be written")
    assert "PERAGO_HOME" in answer.stdout


def test_a_home_of_a_newer_perago_is_refused(bench: Bench) -> None:
    bench.store.close()
    with closing(sqlite3.connect(bench.home / "store.sqlite3")) as connection:
        connection.execute("PRAGMA user_version = 2")
    with pytest.raises(EnvironmentUnfitError, match="store format 2") as caught:
        bench.store.repositories()
    assert "upgrade" in str(caught.value.hint)


@pytest.mark.parametrize("version", [0, 1])
def test_a_database_of_somebody_else_is_left_alone(tmp_path: Path, version: int) -> None:
    home = tmp_path / "home"
    home.mkdir()
    with closing(sqlite3.connect(home / "store.sqlite3")) as connection, connection:
        connection.execute("CREATE TABLE precious (x)")
        connection.execute(f"PRAGMA user_version = {version}")
    before = (home / "store.sqlite3").read_bytes()
    with pytest.raises(EnvironmentUnfitError, match="is not a Perago store"):
        EmbeddedWorkspaceStore(home, FakeClock()).repositories()
    assert (home / "store.sqlite3").read_bytes() == before


def test_a_write_lock_that_is_never_released_is_reported_in_time(bench: Bench) -> None:
    head = bench.store.head(REPOSITORY, MAIN).id
    with (
        closing(sqlite3.connect(bench.home / "store.sqlite3")) as connection,
        connection,
    ):
        connection.execute("BEGIN IMMEDIATE")
        with pytest.raises(StoreUnavailableError, match="busy"):
            bench.store.relocate(
                REPOSITORY, MAIN, to=head, expected_head=head, timeout_seconds=0.05
            )
    bench.store.relocate(REPOSITORY, MAIN, to=head, expected_head=head, timeout_seconds=0.05)


FORK = """
import os, sys
from pathlib import Path
from perago.adapters.embedded.store import EmbeddedWorkspaceStore
from perago.adapters.localfs.clock import SystemClock

store = EmbeddedWorkspaceStore(Path(sys.argv[1]), SystemClock())
head = store.head("repo", "main").id
child = os.fork()
if child == 0:
    store.create_branch("repo", "by-child", head)
    store.close()
    os._exit(0)
assert os.waitpid(child, 0)[1] == 0
store.create_branch("repo", "by-parent", head)
print(*(branch.name for branch in store.branches("repo")))
store.close()
"""


def test_connections_are_not_shared_over_a_fork(bench: Bench) -> None:
    answer = subprocess.run(
        [sys.executable, "-c", FORK, bench.home], capture_output=True, text=True, check=True
    )
    assert answer.stdout.split() == ["by-child", "by-parent", "main"]
    bench.store.create_branch(
        REPOSITORY, BranchName("after"), CommitId(bench.store.resolve(REPOSITORY, "main"))
    )
    assert bench.store.verify().is_clean


def test_no_connection_is_left_open(bench: Bench) -> None:
    bench.commit({"a": b"1", "b": LARGE})
    bench.store.close()
    if Path("/proc/self/fd").is_dir():
        links = [link.readlink() for link in Path("/proc/self/fd").iterdir() if link.exists()]
        assert not [link for link in links if link.is_relative_to(bench.home)]
    assert sorted(path.name for path in bench.home.glob("store.sqlite3*")) == ["store.sqlite3"]


def test_a_store_is_for_its_user_alone_whatever_the_umask_is(tmp_path: Path) -> None:
    home = tmp_path / "home"
    before = os.umask(0)
    try:
        with EmbeddedWorkspaceStore(home, FakeClock()) as store:
            store.create_repository(RepositoryName("repo"))
            database = home / "store.sqlite3"
            beside = [database.with_name(f"{database.name}{end}") for end in ("", "-wal", "-shm")]
            assert {path.stat().st_mode & 0o777 for path in beside} == {0o600}
    finally:
        os.umask(before)

    directories = [home, *(path for path in home.iterdir() if path.is_dir())]
    assert {path.stat().st_mode & 0o777 for path in directories} == {0o700}


def test_a_store_of_an_earlier_version_is_closed_to_others(tmp_path: Path) -> None:
    with EmbeddedWorkspaceStore(tmp_path, FakeClock()) as store:
        store.create_repository(RepositoryName("repo"))
    (tmp_path / "store.sqlite3").chmod(0o644)

    with EmbeddedWorkspaceStore(tmp_path, FakeClock()) as store:
        assert store.repositories() == ["repo"]

    assert (tmp_path / "store.sqlite3").stat().st_mode & 0o777 == 0o600
