"""The object cache does what a simple model of it does, whatever it is asked in whatever order."""

import shutil
import tempfile
from pathlib import Path

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from perago.domain.workspace import disk_use
from tests.unit.adapters.object_cache.bench import (
    BLOCK,
    Bench,
    digest_of,
    indexed,
    keep,
    object_files,
)

CONTENTS = [b"", b"a", b"b", b"c" * BLOCK, b"d" * (BLOCK + 1), b"e" * 3 * BLOCK, b"f" * 9 * BLOCK]
IDENTITIES = [f"{letter}{number}" for number in range(len(CONTENTS)) for letter in "xy"]

contents = st.integers(0, len(CONTENTS) - 1)
processes = st.integers(0, 1)
steps = st.one_of(
    st.tuples(st.just("get"), contents), st.tuples(st.sampled_from(["x", "y"]), contents)
)


class Model:
    """Contents in order of use, by number."""

    def __init__(self, max_bytes: int) -> None:
        self.max_bytes = max_bytes
        self.order: list[int] = []
        self.bad: set[int] = set()
        self.identities: dict[str, int] = {}
        self.used: tuple[list[int], list[int]] = ([], [])
        """What each of two processes has used and not told yet."""

    def disk(self, numbers: list[int]) -> int:
        return sum(disk_use(len(CONTENTS[number])) for number in numbers)

    def get(self, process: int, number: int) -> bool:
        if number in self.bad:
            self.bad.remove(number)
            self.order.remove(number)
        if number not in self.order:
            return False
        move_to_end(self.used[process], number)
        return True

    def takes(self, kept: list[int], number: int) -> bool:
        return self.disk([*kept, number]) <= self.max_bytes

    def settle(self, process: int, kept: list[int]) -> None:
        told = [number for number in self.used[process] if number in self.order]
        for number in [*told, *kept]:
            move_to_end(self.order, number)
        if not (self.used[process] or kept):
            return
        self.used[process].clear()
        self.bad.difference_update(kept)
        if self.disk(self.order) <= self.max_bytes:
            return
        while self.disk(self.order) > self.max_bytes * 90 // 100:
            if self.disk(self.order) <= self.max_bytes and self.order[0] in kept:
                return
            self.bad.discard(self.order.pop(0))


def move_to_end(numbers: list[int], number: int) -> None:
    if number in numbers:
        numbers.remove(number)
    numbers.append(number)


class CacheMachine(RuleBasedStateMachine):
    """Two processes' views of one cache, and the model of it."""

    @initialize(blocks=st.integers(1, 20))
    def open(self, blocks: int) -> None:
        # In memory where there is such a place: this is about what is said, not about the disk.
        shared_memory = "/dev/shm" if Path("/dev/shm").is_dir() else None
        self.root = Path(tempfile.mkdtemp(prefix="perago-machine-", dir=shared_memory))
        self.model = Model(blocks * BLOCK)
        self.benches = [
            Bench(self.root / "cache", self.root / f"files{process}", blocks * BLOCK)
            for process in range(2)
        ]

    def teardown(self) -> None:
        if hasattr(self, "root"):
            for bench in self.benches:
                bench.cache.close()
            shutil.rmtree(self.root)

    @rule(process=processes, plan=st.lists(steps, max_size=6))
    def check_out(self, process: int, plan: list[tuple[str, int]]) -> None:
        bench, kept = self.benches[process], list[int]()
        with bench.cache.intake() as intake:
            for step, number in plan:
                if step == "get":
                    assert bench.deliver(CONTENTS[number]) == self.model.get(process, number)
                    continue
                taken = keep(intake, f"{step}{number}", CONTENTS[number])
                assert taken == self.model.takes(kept, number)
                if taken:
                    self.model.identities[f"{step}{number}"] = number
                    if number not in kept:
                        kept.append(number)
        self.model.settle(process, kept)

    @rule(process=processes)
    def close(self, process: int) -> None:
        self.benches[process].cache.close()
        self.model.settle(process, [])

    @rule(number=contents.filter(bool), whole=st.booleans())
    def damage(self, number: int, whole: bool) -> None:
        entry = self.benches[0].entry(CONTENTS[number])
        if entry.exists():
            entry.chmod(0o600)
            entry.write_bytes(b"?" * (len(CONTENTS[number]) - (not whole)))
            self.model.bad.add(number)

    @invariant()
    def says_the_same(self) -> None:
        if not hasattr(self, "root"):
            return
        model, bench = self.model, self.benches[0]
        assert bench.cache.usage() == (len(model.order), model.disk(model.order))
        assert model.disk(model.order) <= model.max_bytes
        assert bench.cache.find(IDENTITIES) == {
            identity: digest_of(CONTENTS[number])
            for identity, number in model.identities.items()
            if number in model.order
        }
        digests = {digest_of(CONTENTS[number]) for number in model.order}
        assert set(object_files(bench.directory)) == set(indexed(bench.directory)) == digests
        assert bench.debris() == []


TestCacheMachine = CacheMachine.TestCase
TestCacheMachine.settings = settings(
    # Half of the profile's: every example is a cache on disk.
    max_examples=settings().max_examples // 2,
    stateful_step_count=20,
)
