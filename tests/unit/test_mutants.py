"""The defects that `make mutants` plants: which there are, and that each is what it says."""

import ast
from pathlib import Path

import pytest

from tests.mutants.__main__ import draw, name_of_failure
from tests.mutants.defects import KINDS, Defect, find_defects
from tests.mutants.reach import Reach

SOURCE = '''\
"""Ä docstring, with 1 number."""
from dataclasses import dataclass

@dataclass(frozen=True)
class Bound:
    seconds: float = 1.5

def publish(head: str, expected: str, tries: int = 3) -> str:
    fence("é", tries)
    if head != expected and tries:
        raise ValueError(f"{tries + 1} tries")
    _log.warning("published after %s", tries)
    while False:
        pass
    return "a" if tries > 2 else "b"
'''


def defects(tmp_path: Path, source: str = SOURCE) -> list[Defect]:
    (tmp_path / "module.py").write_text(source, encoding="utf-8")
    return list(find_defects(tmp_path, "module.py"))


def test_every_place_has_its_defects(tmp_path: Path) -> None:
    found = {(one.kind, one.was, one.now) for one in defects(tmp_path)}

    assert found == {
        ("step skipped", 'fence("é", tries)', "pass"),
        ("step skipped", 'raise ValueError(f"{tries + 1} tries")', "pass"),
        (
            "condition turned round",
            "head != expected and tries",
            "(not (head != expected and tries))",
        ),
        ("condition turned round", "False", "(not (False))"),
        ("condition turned round", "tries > 2", "(not (tries > 2))"),
        ("comparison off", "head != expected", "(head == expected)"),
        ("comparison off", "head != expected and tries", "(tries)"),
        ("comparison off", "head != expected and tries", "(head != expected)"),
        ("comparison off", "tries > 2", "(tries >= 2)"),
        ("constant changed", "1.5", "4.0"),
        ("constant changed", "3", "7"),
        ("constant changed", "False", "True"),
        ("constant changed", "2", "5"),
    }
    assert {kind for kind, _, _ in found} == set(KINDS)


def test_a_planted_defect_is_the_only_change(tmp_path: Path) -> None:
    for defect in defects(tmp_path):
        (tmp_path / "module.py").write_text(SOURCE, encoding="utf-8")
        defect.plant(tmp_path)

        sound, changed = SOURCE.encode(), (tmp_path / "module.py").read_bytes()
        ast.parse(changed)
        planted = defect.start + len(defect.now.encode())
        assert changed[: defect.start] == sound[: defect.start]
        assert changed[defect.start : planted].decode() == defect.now
        assert changed[planted:] == sound[defect.end :]
        assert sound[defect.start : defect.end].decode() == defect.was


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    package = tmp_path / "src" / "perago" / "domain"
    package.mkdir(parents=True)
    (package / "module.py").write_text(SOURCE, encoding="utf-8")
    return tmp_path


def test_a_seed_draws_the_same_defects_of_every_kind(tree: Path) -> None:
    drawn = draw(tree, count=8, seed=3)

    assert drawn == draw(tree, count=8, seed=3)
    assert sorted(one.kind for one in drawn) == sorted([*KINDS, *KINDS])
    assert drawn != draw(tree, count=8, seed=4)


def test_only_a_failed_test_or_module_finds_a_defect() -> None:
    summary = [
        "ERROR: not found: tests/unit/x.py::test_gone",
        "",
        "FAILED tests/a.py::b - assert 1",
    ]

    assert name_of_failure(summary) == "tests/a.py::b"
    assert name_of_failure(["ERROR tests/a.py - ImportError"]) == "tests/a.py"
    assert name_of_failure(summary[:2]) is None


def test_a_defect_meets_the_tests_that_reach_its_lines(tmp_path: Path) -> None:
    fence = next(one for one in defects(tmp_path) if one.was.startswith("fence"))
    bound = next(one for one in defects(tmp_path) if one.was == "1.5")
    reach = Reach({"module.py": {6: {""}, 9: {"b", "", "a"}, 10: {"c"}}})

    assert reach.of(fence) == ["a", "b"]
    assert reach.of(bound) == ["a", "b", "c"], "it is set while the module is imported"
    assert Reach({}).of(fence) == []
    quick = Reach({"module.py": {9: {"a"}, 10: {"c"}}})
    assert reach.without(quick).of(fence) == ["b"]
