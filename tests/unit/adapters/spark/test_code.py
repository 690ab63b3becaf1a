"""Which code Spark's machines are sent."""

from __future__ import annotations

import subprocess
import sys
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from perago.adapters.spark import TaskCode
from perago.adapters.spark.code import own_files_first
from perago.domain.errors import SettingsError


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A package and a module that were imported from somewhere."""
    root = tmp_path / "project"
    (root / "shop_pkg" / "deep" / ".hidden").mkdir(parents=True)
    (root / "shop_pkg" / "plain").mkdir()
    deep = ("deep/__init__.py", "deep/rows.py", "deep/.hidden/no.py")
    for name in ("__init__.py", *deep, "plain/rows.py"):
        (root / "shop_pkg" / name).write_text("VALUE = 1\n")
    (root / "shop_pkg" / "data.csv").write_text("no code")
    (root / "shop_alone.py").write_text("def f():\n    return 1\n")
    monkeypatch.syspath_prepend(root)
    __import__("shop_pkg.deep")
    __import__("shop_alone")
    yield root
    for name in [name for name in sys.modules if name.startswith("shop_")]:
        del sys.modules[name]


def test_the_modules_that_were_imported_are_packed_with_their_packages(
    project: Path, tmp_path: Path
) -> None:
    (archive,) = TaskCode().archives(tmp_path / "out")

    with zipfile.ZipFile(archive) as packed:
        names = packed.namelist()
    ours = [name for name in names if name.startswith("shop_") and not name.endswith("/")]
    assert ours == [
        "shop_alone.py",
        "shop_pkg/__init__.py",
        "shop_pkg/deep/__init__.py",
        "shop_pkg/deep/rows.py",
        "shop_pkg/plain/rows.py",
    ]
    others = {name.partition("/")[0] for name in names}
    assert not others & {"perago", "pyspark", "pandas", "pytest", "json"}
    assert (project / "shop_pkg" / "data.csv").exists()


@pytest.mark.usefixtures("project")
@pytest.mark.parametrize("package", ["deep", "plain"])
def test_packages_are_found_in_the_archive_with_and_without_an_init(
    package: str, tmp_path: Path
) -> None:
    (archive,) = TaskCode().archives(tmp_path / "out")

    code = f"import shop_pkg.{package}.rows as rows; print(rows.__file__)"
    found = subprocess.run(
        [sys.executable, "-c", code],
        env={"PYTHONPATH": str(archive)},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=True,
    )
    assert found.stdout.startswith(str(archive))


def test_what_pyspark_adds_comes_after_the_projects_own_files(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(sys, "path", ["first", "second"])
    with own_files_first():
        sys.path.insert(1, "archive.zip")
    assert sys.path == ["first", "second", "archive.zip"]


@pytest.mark.usefixtures("project")
def test_the_same_code_is_the_same_bytes(tmp_path: Path) -> None:
    (first,) = TaskCode().archives(tmp_path / "a")
    (second,) = TaskCode().archives(tmp_path / "b")
    assert first.read_bytes() == second.read_bytes()


@pytest.mark.usefixtures("project")
def test_functions_of_the_project_are_sent_by_value() -> None:
    from pyspark import cloudpickle

    TaskCode().send_by_value()
    registered: set[str] = cloudpickle.list_registry_pickle_by_value()  # type: ignore[no-untyped-call]
    for name in registered:
        cloudpickle.unregister_pickle_by_value(sys.modules[name])  # type: ignore[no-untyped-call]
    assert {"shop_pkg", "shop_pkg.deep", "shop_alone"} <= registered
    assert not {name for name in registered if name.partition(".")[0] in {"perago", "pyspark"}}


def test_a_wheel_goes_as_a_zip_file_and_others_as_they_are(tmp_path: Path) -> None:
    wheel, module = tmp_path / "lib-1.0-py3-none-any.whl", tmp_path / "one.py"
    wheel.write_bytes(b"wheel")
    module.write_text("")

    *_, first, second = TaskCode(libraries=(wheel, module)).archives(tmp_path / "out")

    assert (first.name, first.read_bytes()) == ("lib-1.0-py3-none-any.zip", b"wheel")
    assert second == module


@pytest.mark.usefixtures("project")
def test_libraries_go_alone_where_the_modules_are_there_already(tmp_path: Path) -> None:
    module = tmp_path / "one.py"
    module.write_text("")
    code = TaskCode(with_modules=False, libraries=(module,))
    assert code.archives(tmp_path / "out") == [module]


@pytest.mark.parametrize("name", ["missing.zip", "lib.tar.gz"])
def test_what_cannot_be_sent_is_refused(tmp_path: Path, name: str) -> None:
    if "missing" not in name:
        (tmp_path / name).write_bytes(b"")
    with pytest.raises(SettingsError, match=name):
        TaskCode(libraries=(tmp_path / name,))
