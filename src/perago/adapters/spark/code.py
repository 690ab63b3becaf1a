"""The tasks' own Python code, for Spark machines that do not have it.

Invariant: a function of the project that Spark runs elsewhere is sent as it is, never as a name to
be imported there: its module may well import this package, which a cluster does not have.
"""

from __future__ import annotations

import os
import shutil
import site
import sys
import sysconfig
import zipfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path, PurePosixPath
from types import ModuleType

from perago.domain.errors import SettingsError

_ARCHIVE = "task-code.zip"
_EPOCH = (1980, 1, 1, 0, 0, 0)
_SUFFIXES = (".egg", ".py", ".whl", ".zip")
_NOT_THE_PROJECTS = frozenset({"__main__", "__mp_main__", "perago", "py4j", "pyspark"})


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskCode:
    """What Spark's machines get of the code that tasks are made of.

    Unless told otherwise, that is every imported module that is not installed in this Python: the
    project's own, wherever it lies; and `libraries`: zip files, single modules, and wheels without
    native code.
    """

    with_modules: bool = True
    libraries: tuple[Path, ...] = ()

    def __post_init__(self) -> None:
        for library in self.libraries:
            if library.suffix not in _SUFFIXES or not library.is_file():
                raise SettingsError(
                    f"spark_py_files names {library}, which is no file of {', '.join(_SUFFIXES)}",
                    hint="correct PERAGO_SPARK_PY_FILES; what has native code is installed on the "
                    "cluster's machines, or packed into spark.archives",
                )

    def send_by_value(self) -> None:
        """Have Spark send the functions and classes of the project's modules themselves."""
        from pyspark import cloudpickle

        for module in self._modules():
            cloudpickle.register_pickle_by_value(module)  # type: ignore[no-untyped-call]

    def archives(self, directory: Path) -> list[Path]:
        """Files that Spark can put on its machines' search path, made in a directory if need be."""
        directory.mkdir(parents=True, exist_ok=True)
        packed = _pack(directory / _ARCHIVE, self._modules())
        return [*packed, *(_as_zip(library, directory) for library in self.libraries)]

    def _modules(self) -> list[ModuleType]:
        if not self.with_modules:
            return []
        return [module for module in list(sys.modules.values()) if _is_of_project(module)]


@contextmanager
def own_files_first() -> Iterator[None]:
    """Keep pyspark from putting the archive before the very files that it was made of.

    It does so in this process too. What is imported later, here or in a process that is started
    from here, would come from a copy.
    """
    before = list(sys.path)
    try:
        yield
    finally:
        sys.path[:] = [*before, *(place for place in sys.path if place not in before)]


def _is_of_project(module: ModuleType) -> bool:
    file = getattr(module, "__file__", None)
    if file is None or module.__name__.partition(".")[0] in _NOT_THE_PROJECTS:
        return False
    # In a zip file, or in a directory of Spark's that is gone, there is nothing to be sent.
    return not file.startswith(_installed_places()) and Path(file).is_file()


@cache
def _installed_places() -> tuple[str, ...]:
    """How the names of files begin that are this Python's, or installed into it."""
    paths = sysconfig.get_paths()
    places = [paths[name] for name in ("stdlib", "platstdlib", "purelib", "platlib")]
    places += [*site.getsitepackages(), site.getusersitepackages()]
    return tuple(f"{place}{os.sep}" for place in places)


def _pack(archive: Path, modules: Iterable[ModuleType]) -> list[Path]:
    """Zip modules, for functions that import others where they run."""
    names = {module.__name__.partition(".")[0] for module in modules}
    sources = sorted({source for name in names for source in _sources(name)})
    if not sources:
        return []
    directories = {str(parent) for name, _ in sources for parent in PurePosixPath(name).parents}
    with zipfile.ZipFile(archive, "w") as stream:
        for directory in sorted(directories - {"."}):
            # By these Python finds a package without `__init__.py`; 3.13 needs none.
            stream.writestr(zipfile.ZipInfo(f"{directory}/", _EPOCH), b"")
        for name, file in sources:
            # Without times: the same code is the same bytes.
            entry = zipfile.ZipInfo(name, _EPOCH)
            stream.writestr(entry, file.read_bytes(), zipfile.ZIP_DEFLATED)
    return [archive]


def _sources(name: str) -> Iterator[tuple[str, Path]]:
    """The Python files of a package, or of a module that is no package, by their names there."""
    module = sys.modules.get(name)
    directories = list(getattr(module, "__path__", ()))
    for directory in map(Path, directories):
        for file in directory.rglob("*.py"):
            below = file.relative_to(directory)
            if not any(part.startswith(".") for part in below.parts):
                yield f"{name}/{below.as_posix()}", file
    file_name = getattr(module, "__file__", None)
    if not directories and file_name is not None and file_name.endswith(".py"):
        yield f"{name}.py", Path(file_name)


def _as_zip(library: Path, directory: Path) -> Path:
    """A wheel is a zip file that Spark does not know by its name."""
    if library.suffix != ".whl":
        return library
    copy = directory / f"{library.stem}.zip"
    shutil.copyfile(library, copy)
    return copy
