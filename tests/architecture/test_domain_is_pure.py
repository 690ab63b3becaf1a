"""The domain decides and does nothing else: no I/O, no clock, no chance, no logging."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

import perago.domain

MODULES = sorted(Path(perago.domain.__file__).parent.rglob("*.py"))

# Each is a set of values and pure functions. A new one is added here with the same thought.
PURE = {
    "__future__",
    "collections.abc",
    "dataclasses",
    "datetime",  # the type; what reads a clock is refused below
    "enum",
    "hashlib",
    "json",  # between texts and values: files are opened elsewhere
    "math",
    "pathlib",  # the type in an annotation; any use of it is refused below
    "re",
    "typing",
    "unicodedata",
}
EFFECTS = {"open", "print", "input", "exec", "eval", "compile", "__import__", "breakpoint"}
CLOCKS = {"now", "utcnow", "today"}


def imports(tree: ast.AST) -> Iterator[str]:
    for node in ast.walk(tree):
        match node:
            case ast.Import(names=names):
                yield from (alias.name for alias in names)
            case ast.ImportFrom(module=str(module), level=0):
                yield module
            case ast.ImportFrom():
                yield "a relative import"
            case _:
                pass


def annotations(tree: ast.AST) -> Iterator[ast.expr]:
    for node in ast.walk(tree):
        match node:
            case ast.AnnAssign(annotation=annotation):
                yield annotation
            case ast.arg(annotation=ast.expr() as annotation):
                yield annotation
            case ast.FunctionDef(returns=ast.expr() as annotation):
                yield annotation
            case _:
                pass


def effects(source: str) -> set[str]:
    """What in a module is not pure."""
    tree = ast.parse(source)
    found = {
        f"imports {name}"
        for name in imports(tree)
        if name not in PURE and not name.startswith("perago.domain.")
    }
    only_types = {id(part) for annotation in annotations(tree) for part in ast.walk(annotation)}
    for node in ast.walk(tree):
        match node:
            case ast.Call(func=ast.Name(id=name)) if name in EFFECTS:
                found.add(f"calls {name}")
            case ast.Attribute(attr=name) if name in CLOCKS:
                found.add(f"reads a clock: {name}")
            case ast.Name(id="Path") if id(node) not in only_types:
                found.add("uses Path as more than a type")
            case ast.Global(names=names):
                found.add(f"changes module state: {', '.join(names)}")
            case _:
                pass
    return found


@pytest.mark.parametrize("module", MODULES, ids=lambda module: module.stem)
def test_the_domain_is_pure(module: Path) -> None:
    assert not effects(module.read_text(encoding="utf-8"))


@pytest.mark.parametrize(
    ("source", "effect"),
    [
        ("import os", "imports os"),
        ("import time", "imports time"),
        ("from logging import getLogger", "imports logging"),
        ("from perago.app import publish", "imports perago.app"),
        ("from . import errors", "imports a relative import"),
        ("def f(): open('x')", "calls open"),
        ("from datetime import datetime\nx = datetime.now()", "reads a clock: now"),
        ("from pathlib import Path\nx = Path('x')", "uses Path as more than a type"),
        ("def f():\n    global x", "changes module state: x"),
    ],
)
def test_an_impure_module_is_found_out(source: str, effect: str) -> None:
    assert effect in effects(source)


@pytest.mark.parametrize(
    "source",
    [
        "from pathlib import Path\ndef f(path: Path) -> Path: return path",
        "from datetime import datetime\nclass A:\n    at: datetime",
        "from perago.domain.ids import TaskId",
    ],
)
def test_a_pure_module_is_left_in_peace(source: str) -> None:
    assert not effects(source)
