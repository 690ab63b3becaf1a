"""The tree drawn in `perago.domain.errors` is the tree of classes, and every class is in it."""

import ast
import inspect
import re
from pathlib import Path

import pytest

from perago.domain import errors
from perago.domain.errors import PeragoError

BRANCH = re.compile(
    r"^(?P<trunk>(?:│   |    )*)(?:├── |└── )?(?P<name>[A-Z]\w+)(?: +(?P<note>.+))?$"
)


def drawn_tree() -> dict[str, str | None]:
    """Each class drawn, in order, with the class above it."""
    drawing = inspect.getdoc(errors) or ""
    lines = [line.removeprefix("    ") for line in drawing.splitlines() if line.startswith("    ")]
    parents: dict[str, str | None] = {}
    path: list[str] = []
    for line in lines:
        match = BRANCH.match(line)
        assert match, f"not a line of the tree: {line!r}"
        depth = 0 if line == "PeragoError" else 1 + len(match["trunk"]) // 4
        assert match["name"] not in parents, f"{match['name']} is drawn twice"
        assert depth <= len(path), f"{match['name']} hangs in the air"
        path = [*path[:depth], match["name"]]
        parents[match["name"]] = path[-2] if depth else None
    return parents


def subclasses(kind: type[PeragoError]) -> dict[str, str | None]:
    """Each class below this one that Perago defines, in the order of definition."""
    found: dict[str, str | None] = {}
    for child in kind.__subclasses__():
        if child.__module__.startswith("perago."):
            found[child.__name__] = kind.__name__
            found |= subclasses(child)
    return found


def test_the_drawing_shows_every_class_where_it_is() -> None:
    assert drawn_tree() == {"PeragoError": None, **subclasses(PeragoError)}


def test_the_drawing_keeps_the_order_of_the_code() -> None:
    defined = [
        node.name
        for node in ast.parse(inspect.getsource(errors)).body
        if isinstance(node, ast.ClassDef)
    ]
    assert list(drawn_tree()) == defined


@pytest.mark.parametrize("name", drawn_tree())
def test_every_error_says_what_it_means(name: str) -> None:
    kind = getattr(errors, name)
    assert kind.__doc__
    assert kind.__bases__ == (Exception,) if kind is PeragoError else len(kind.__bases__) == 1


def test_the_tree_has_no_branch_in_another_module(project_root: Path) -> None:
    drawn = drawn_tree()
    elsewhere = {
        f"{module.relative_to(project_root)} defines {node.name}"
        for module in (project_root / "src/perago").rglob("*.py")
        if module != Path(errors.__file__)
        for node in ast.walk(ast.parse(module.read_text(encoding="utf-8")))
        if isinstance(node, ast.ClassDef)
        and any(isinstance(base, ast.Name) and base.id in drawn for base in node.bases)
    }
    assert not elsewhere
