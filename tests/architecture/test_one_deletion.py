"""Trees are deleted in one function, files are locked in one module, a parent is watched in one.

`perago.system.directories.remove_tree` refuses what is not tagged, owned and below its descriptor:
`tests/unit/system/test_directories.py`. Here it is seen that nothing deletes beside it.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

import perago

SOURCE = Path(perago.__file__).parent
MODULES = sorted(path.relative_to(SOURCE).as_posix() for path in SOURCE.rglob("*.py"))

DELETES = {"rmtree", "rmdir", "removedirs", "TemporaryDirectory", "mkdtemp", "walk", "fwalk"}
LOCKS = {"flock", "lockf"}

# Who may, and why.
ALLOWED = {
    "system/directories.py": {"rmdir"},  # the one function
    "system/tree_removal.py": {"rmdir"},  # how it does it; only that one asks, see below
    "system/file_lock.py": {"flock"},  # the one lock
    # A test kit's own directory: made new, removed by the object that made it.
    "testing/environment.py": {"TemporaryDirectory", "mkdtemp"},
    "adapters/guardrails/local.py": {"walk"},  # reads
}

# Walks of a syntax tree, which is none of files.
HARMLESS_OWNERS = {"ast"}


def uses(source: str) -> Iterator[str]:
    """What a module says that deletes trees or locks files, and programs that do so for it."""
    for node in ast.walk(ast.parse(source)):
        match node:
            case ast.Attribute(value=ast.Name(id=owner)) if owner in HARMLESS_OWNERS:
                continue
            case ast.Attribute(attr=name) if name in DELETES | LOCKS:
                yield name
            case ast.ImportFrom(module="shutil" | "os" | "tempfile" | "fcntl", names=names):
                yield from (alias.name for alias in names if alias.name in DELETES | LOCKS)
            case ast.List(elts=[ast.Constant(value="rm" | "/bin/rm"), *_]):
                yield "rm"
            case ast.Constant(value=str(text)) if "rm -r" in text:
                yield "rm"
            case _:
                pass


@pytest.mark.parametrize("module", MODULES)
def test_nothing_else_deletes_trees_or_locks_files(module: str) -> None:
    found = set(uses((SOURCE / module).read_text(encoding="utf-8")))

    assert found <= ALLOWED.get(module, set())


def test_only_the_one_function_deletes_without_looking() -> None:
    """It sees to it that a tree is below a tagged directory, and ours."""
    callers = [
        module
        for module in MODULES
        if "TreeRemoval(" in (SOURCE / module).read_text(encoding="utf-8")
    ]

    assert callers == ["system/directories.py"]


@pytest.mark.parametrize("module", sorted(ALLOWED))
def test_every_exception_is_still_needed(module: str) -> None:
    assert set(uses((SOURCE / module).read_text(encoding="utf-8"))) == ALLOWED[module]


@pytest.mark.parametrize(
    ("source", "found"),
    [
        ("import shutil\nshutil.rmtree(x)", "rmtree"),
        ("from shutil import rmtree", "rmtree"),
        ("x.rmdir()", "rmdir"),
        ("import os\nfor a in os.walk(x): pass", "walk"),
        ("import tempfile\ntempfile.TemporaryDirectory()", "TemporaryDirectory"),
        ("subprocess.run(['rm', '-rf', x])", "rm"),
        ("subprocess.run('rm -rf x', shell=True)", "rm"),
        ("import fcntl\nfcntl.flock(x, 1)", "flock"),
    ],
)
def test_a_deletion_is_found_out(source: str, found: str) -> None:
    assert found in set(uses(source))


def test_only_one_module_watches_for_a_dead_parent() -> None:
    """A watcher is a program that kills a group, or is told of sessions to end."""
    watchers = [
        module
        for module in MODULES
        if "kill -s KILL" in (text := (SOURCE / module).read_text(encoding="utf-8"))
        or ("stdin=subprocess.PIPE" in text and "start_new_session" in text)
    ]

    assert watchers == ["system/parent_watch.py"]
