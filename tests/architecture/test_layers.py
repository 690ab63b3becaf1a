"""The dependency rule holds, and the domain stands on the standard library alone."""

import ast
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest


def imported_packages(source: Path) -> Iterator[str]:
    for node in ast.walk(ast.parse(source.read_text(encoding="utf-8"))):
        match node:
            case ast.Import(names=names):
                yield from (alias.name.partition(".")[0] for alias in names)
            case ast.ImportFrom(module=str(module), level=0):
                yield module.partition(".")[0]
            case _:
                pass


def test_import_contracts_are_kept(project_root: Path) -> None:
    lint_imports = Path(sys.executable).with_name("lint-imports")
    answer = subprocess.run(
        [lint_imports, "--no-cache"], cwd=project_root, capture_output=True, text=True, check=False
    )
    assert answer.returncode == 0, answer.stdout + answer.stderr


def test_domain_imports_the_standard_library_only(project_root: Path) -> None:
    allowed = sys.stdlib_module_names | {"perago"}
    foreign = {
        f"{module.relative_to(project_root)} imports {package}"
        for module in (project_root / "src/perago/domain").rglob("*.py")
        for package in imported_packages(module)
        if package not in allowed
    }
    assert not foreign


def test_the_system_layer_stands_on_the_standard_library_and_psutil(project_root: Path) -> None:
    allowed = sys.stdlib_module_names | {"perago", "psutil"}
    foreign = {
        f"{module.relative_to(project_root)} imports {package}"
        for module in (project_root / "src/perago/system").rglob("*.py")
        for package in imported_packages(module)
        if package not in allowed
    }
    assert not foreign


@pytest.mark.parametrize("name", ["utils", "helpers", "manager", "common"])
def test_no_module_has_a_name_that_says_nothing(project_root: Path, name: str) -> None:
    assert not list((project_root / "src").rglob(f"*{name}*"))
