"""The embedded store does what the in-memory one does, whatever it is asked in whatever order."""

import shutil
import tempfile
from collections.abc import Callable
from datetime import timedelta
from itertools import count
from pathlib import Path

from blake3 import blake3
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    Bundle,
    MultipleResults,
    RuleBasedStateMachine,
    initialize,
    invariant,
    multiple,
    rule,
)

from perago.adapters.embedded.store import EmbeddedWorkspaceStore
from perago.domain.errors import PeragoError
from perago.domain.ids import (
    BranchName,
    CommitId,
    Digest,
    ObjectPath,
    RelativePath,
    RepositoryName,
    TreeId,
)
from perago.domain.publication import Commit, StagedWorkspace
from perago.ports import LocalFile, WorkspaceStore
from perago.testing.clock import FakeClock
from perago.testing.memory_store import MemoryWorkspaceStore

REPOSITORY, MAIN = RepositoryName("repo"), BranchName("main")

NAMES = st.sampled_from([MAIN, *map(BranchName, ("a", "b", "c", "not/legal"))])
PATHS = st.sampled_from(["", "/", "a", "a/", "a/b", "a//b", "a-b", "../x", "é", "😀", "\x00"])
SIZES = st.sampled_from([0, 1, 2, 3_000, 70_000, 70_001])

Outcome = object


class StoreMachine(RuleBasedStateMachine):
    """Every rule is done to both stores. A commit is a number; each store has its own id for it."""

    commits: Bundle[int] = Bundle("commits")

    def __init__(self) -> None:
        super().__init__()
        # In memory where there is such a place: this is about what is said, not about the disk.
        shared_memory = "/dev/shm" if Path("/dev/shm").is_dir() else None
        self.root = Path(tempfile.mkdtemp(prefix="perago-machine-", dir=shared_memory))
        clock = FakeClock()
        self.memory = MemoryWorkspaceStore(clock)
        self.embedded = EmbeddedWorkspaceStore(self.root / "home", clock)
        self.ids: list[tuple[CommitId, CommitId]] = []
        self.collected: set[int] = set()
        self.files = count()

    def teardown(self) -> None:
        assert self.embedded.verify().is_clean
        self.embedded.close()
        shutil.rmtree(self.root)

    # -- doing the same to both

    def file(self, content: bytes) -> LocalFile:
        path = self.root / f"file-{next(self.files)}"
        path.write_bytes(content)
        return LocalFile(path=path, digest=Digest(blake3(content).hexdigest()), size=len(content))

    def both(self, call: Callable[[WorkspaceStore, int], Outcome]) -> tuple[Outcome, Outcome]:
        """What each store answered; the kind of the answer must be the same."""
        outcomes: list[Outcome] = []
        stores: tuple[WorkspaceStore, WorkspaceStore] = (self.memory, self.embedded)
        for side, store in enumerate(stores):
            try:
                outcomes.append(call(store, side))
            except PeragoError as error:
                outcomes.append(type(error))
        one, other = outcomes
        assert one == other or (isinstance(one, Commit) and isinstance(other, Commit)), outcomes
        return one, other

    def remember(self, outcomes: tuple[Outcome, Outcome]) -> list[int]:
        one, other = outcomes
        if not isinstance(one, Commit) or not isinstance(other, Commit):
            return []
        numbers = [[ids[side] for ids in self.ids] for side in (0, 1)]
        parents = [
            [numbers[side].index(parent) for parent in commit.parents]
            for side, commit in enumerate((one, other))
        ]
        assert parents[0] == parents[1]
        self.ids.append((one.id, other.id))
        return [len(self.ids) - 1]

    def id(self, commit: int, side: int) -> CommitId:
        return self.ids[commit][side]

    @initialize(target=commits)
    def create(self) -> int:
        (number,) = self.remember(
            self.both(lambda store, _side: store.create_repository(REPOSITORY))
        )
        return number

    # -- the rules

    @rule(name=NAMES, source=commits, hidden=st.booleans())
    def create_branch(self, name: BranchName, source: int, hidden: bool) -> None:
        if source not in self.collected:
            self.both(
                lambda store, side: store.create_branch(
                    REPOSITORY, name, self.id(source, side), hidden=hidden
                )
            )

    @rule(name=NAMES)
    def delete_branch(self, name: BranchName) -> None:
        self.both(lambda store, _side: store.delete_branch(REPOSITORY, name))

    @rule(
        target=commits,
        name=NAMES,
        writes=st.dictionaries(PATHS, SIZES, max_size=4),
        deletes=st.sets(PATHS, max_size=3),
    )
    def commit(
        self, name: BranchName, writes: dict[str, int], deletes: set[str]
    ) -> MultipleResults[int]:
        files = {ObjectPath(path): self.file(b"x" * size) for path, size in writes.items()}
        moved = [[0, 0], [0, 0]]

        def call(store: WorkspaceStore, side: int) -> Commit:
            def on_transfer(objects: int, size: int) -> None:
                moved[side][0] += objects
                moved[side][1] += size

            return store.commit_changes(
                REPOSITORY,
                name,
                writes=files,
                deletes=[ObjectPath(path) for path in deletes],
                message="m",
                metadata={"k": name},
                on_transfer=on_transfer,
            )

        made = self.remember(self.both(call))
        if made:
            assert moved[0] == moved[1]
        return multiple(*made)

    @rule(target=commits, branch=NAMES, commit=commits, target_name=NAMES, expected=commits)
    def merge(
        self, branch: BranchName, commit: int, target_name: BranchName, expected: int
    ) -> MultipleResults[int]:
        if {commit, expected} & self.collected:
            return multiple()
        return self.merge_both(branch, commit, target_name, expected)

    @rule(target=commits, branch=NAMES, target_name=NAMES)
    def publish(self, branch: BranchName, target_name: BranchName) -> MultipleResults[int]:
        """A merge that knows where both branches stand."""
        heads = {b.name: b.head for b in self.memory.branches(REPOSITORY, hidden=True)}
        known = [ids[0] for ids in self.ids]
        if branch not in heads or target_name not in heads:
            return multiple()
        staged, expected = known.index(heads[branch]), known.index(heads[target_name])
        return self.merge_both(branch, staged, target_name, expected)

    def merge_both(
        self, branch: BranchName, commit: int, name: BranchName, expected: int
    ) -> MultipleResults[int]:
        def call(store: WorkspaceStore, side: int) -> Commit:
            staged = StagedWorkspace(
                repository=REPOSITORY, branch=branch, commit=self.id(commit, side)
            )
            return store.merge(
                staged,
                name,
                expected_head=self.id(expected, side),
                message="m",
                metadata={},
                timeout_seconds=10,
            )

        return multiple(*self.remember(self.both(call)))

    @rule(name=NAMES, to=commits, expected=commits, right=st.booleans())
    def relocate(self, name: BranchName, to: int, expected: int, right: bool) -> None:
        heads = {b.name: b.head for b in self.memory.branches(REPOSITORY, hidden=True)}
        if right and name in heads:
            expected = [ids[0] for ids in self.ids].index(heads[name])
        if {to, expected} & self.collected:
            return
        self.both(
            lambda store, side: store.relocate(
                REPOSITORY,
                name,
                to=self.id(to, side),
                expected_head=self.id(expected, side),
                timeout_seconds=10,
            )
        )

    @rule(root=commits)
    def collect_garbage(self, root: int) -> None:
        """Only the embedded store forgets; what it may forget is known from the other one."""
        reachable: set[CommitId] = set()
        heads = [b.head for b in self.memory.branches(REPOSITORY, hidden=True)]
        if root not in self.collected:
            heads.append(self.id(root, 0))
        for head in heads:
            reachable |= {commit.id for commit in self.memory.log(REPOSITORY, head)}
        for number, (mine, _) in enumerate(self.ids):
            if mine not in reachable:
                self.collected.add(number)
        self.embedded.gc(roots=[self.id(root, 1)], grace=timedelta(0))

    @rule(commit=commits)
    def check_out(self, commit: int) -> None:
        if commit in self.collected:
            return
        trees: list[dict[str, bytes]] = []
        stores: tuple[WorkspaceStore, WorkspaceStore] = (self.memory, self.embedded)
        for side, store in enumerate(stores):
            directory = self.root / f"out-{next(self.files)}"
            directory.mkdir()
            entries = list(store.list_objects(REPOSITORY, self.id(commit, side)))
            files = {RelativePath(f"f{n}"): entry for n, entry in enumerate(entries)}
            digests = store.checkout(
                REPOSITORY, self.id(commit, side), files, directory, lambda _o, _s: None
            )
            assert digests == {name: entry.checksum for name, entry in files.items()}
            trees.append(
                {entry.path: (directory / name).read_bytes() for name, entry in files.items()}
            )
        assert trees[0] == trees[1]

    @rule()
    def reopen(self) -> None:
        self.embedded.close()

    # -- what always holds

    @invariant()
    def branches_are_the_same(self) -> None:
        translate = dict(self.ids)
        expected = (
            [
                (branch.name, translate[branch.head], branch.hidden)
                for branch in self.memory.branches(REPOSITORY, hidden=True)
            ]
            if self.ids
            else []
        )
        found = (
            [
                (branch.name, branch.head, branch.hidden)
                for branch in self.embedded.branches(REPOSITORY, hidden=True)
            ]
            if self.ids
            else []
        )
        assert found == expected

    @invariant()
    def equal_trees_are_equal_in_both(self) -> None:
        partitions: list[dict[TreeId, list[int]]] = [{}, {}]
        for number, ids in enumerate(self.ids):
            if number not in self.collected:
                one = self.memory.read_commit(REPOSITORY, ids[0])
                other = self.embedded.read_commit(REPOSITORY, ids[1])
                assert (one.message, one.metadata) == (other.message, other.metadata)
                partitions[0].setdefault(one.tree, []).append(number)
                partitions[1].setdefault(other.tree, []).append(number)
        assert list(partitions[0].values()) == list(partitions[1].values())


TestStoreMachine = StoreMachine.TestCase
TestStoreMachine.settings = settings(
    # A fifth of the profile's: every example is a store on disk.
    max_examples=settings().max_examples // 5,
    stateful_step_count=30,
)
