from pathlib import Path

import pytest

from perago.adapters.spark.machine import measure_machine


def test_this_machine_has_something_to_offer(tmp_path: Path) -> None:
    machine = measure_machine(tmp_path / "no-container")
    assert machine.cores >= 1
    assert machine.memory_mb > 64


@pytest.mark.parametrize(
    ("limit", "limited"),
    [("67108864\n", True), ("max\n", False), (str(2**62), False)],
)
def test_a_container_can_only_lower_the_memory(tmp_path: Path, limit: str, limited: bool) -> None:
    whole = measure_machine(tmp_path / "no-container").memory_mb
    (tmp_path / "memory.max").write_text(limit)
    assert measure_machine(tmp_path / "memory.max").memory_mb == (64 if limited else whole)
