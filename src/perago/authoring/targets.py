"""TARGET -> tasks and pipelines.

A TARGET is `module`, `module:name`, `path.py` or `path.py:name`. The search path, usually the
working directory, is importable.

Invariant: the same TARGET and search path give the same module name in every process, so that a
spawned executor finds what its supervisor found. A file that can be imported by name is imported
under that name; any other gets a name made of its path.
"""

from __future__ import annotations

import hashlib
import importlib
import importlib.util
import sys
import traceback
from collections.abc import Sequence
from pathlib import Path
from types import ModuleType

from perago.authoring.declarations import (
    Declarations,
    choose_pipeline,
    collect,
    find,
    merge,
)
from perago.authoring.pipeline import Pipeline
from perago.authoring.wording import suggest
from perago.domain.errors import PeragoError, TargetError
from perago.domain.outcome import describe_error


def load_targets(texts: Sequence[str], search_path: Path) -> Declarations:
    """Import every TARGET and gather what they declare, or raise `TargetError`."""
    return merge([_load(text, search_path) for text in texts], ", ".join(texts))


def load_pipeline(text: str, search_path: Path) -> Pipeline:
    """The one pipeline that a TARGET names; a single task makes a pipeline of its own."""
    return choose_pipeline(_load(text, search_path), text)


def _load(text: str, search_path: Path) -> Declarations:
    place, name = _split(text)
    _make_importable(search_path.resolve())
    importlib.invalidate_caches()
    if place.endswith(".py") or "/" in place:
        module = _import_file(place, search_path.resolve(), text)
    else:
        module = _import_module(place, text)
    return collect(module, text) if name is None else find(module, name, text)


def _split(text: str) -> tuple[str, str | None]:
    place, colon, name = text.rpartition(":")
    if not colon:
        place, name = text, ""
    if not place or (colon and not name):
        raise TargetError(
            f"{text!r} is no TARGET", hint="write module, module:name, path.py or path.py:name"
        )
    return place, name or None


def _make_importable(directory: Path) -> None:
    if str(directory) not in sys.path:
        sys.path.insert(0, str(directory))


def _import_module(name: str, target: str) -> ModuleType:
    if not all(part.isidentifier() for part in name.split(".")):
        raise TargetError(
            f"{target}: {name!r} is no module name", hint="a file ends in .py: path/to/file.py"
        )
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        # Of a module that is there but imports something missing, the error names that.
        if error.name is None or not f"{name}.".startswith(f"{error.name}."):
            raise _unimportable(target, error) from error
        raise TargetError(
            f"{target}: there is no module {error.name!r}",
            hint="run in the directory that holds it, or give the path of its file",
        ) from error
    except (Exception, SystemExit) as error:
        raise _unimportable(target, error) from error


def _import_file(place: str, search_path: Path, target: str) -> ModuleType:
    path = (search_path / place).resolve()
    if not path.is_file():
        beside = [other.name for other in path.parent.glob("*.py")] if path.parent.is_dir() else []
        raise TargetError(
            f"{target}: there is no file {str(path)!r}{suggest(path.name, beside)}",
            hint="give the path from the working directory, or a module name",
        )
    name = _importable_name(path, search_path)
    if name is not None:
        return _import_module(name, target)
    return _execute_file(path, target)


def _importable_name(path: Path, search_path: Path) -> str | None:
    """The name under which the import system finds this very file, or None."""
    root = path.parent
    while (root / "__init__.py").is_file():
        root = root.parent
    if root == path.parent and path.is_relative_to(search_path):
        root = search_path
    elif root != path.parent:
        _make_importable(root)
    else:
        return None
    parts = path.relative_to(root).with_suffix("").parts
    if parts[-1] == "__init__":
        parts = parts[:-1]
    name = ".".join(parts)
    if not parts or not all(part.isidentifier() for part in parts):
        return None
    return name if _finds(name, path) else None


def _finds(name: str, path: Path) -> bool:
    try:
        spec = importlib.util.find_spec(name)
    except (ModuleNotFoundError, ValueError):
        return False
    except (Exception, SystemExit):  # noqa: BLE001 - a package of the author's, imported on the way
        # It will fail again, where that is reported.
        return True
    return spec is not None and spec.origin is not None and Path(spec.origin).resolve() == path


def _execute_file(path: Path, target: str) -> ModuleType:
    """Import a file that no import statement reaches, or that another module of its name hides."""
    digest = hashlib.sha256(str(path).encode()).hexdigest()[:12]
    name = f"perago_target_{digest}"
    if name in sys.modules:
        return sys.modules[name]
    if str(path.parent) not in sys.path:
        # Last, so that its neighbours can be imported and hide nothing.
        sys.path.append(str(path.parent))
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
    except (Exception, SystemExit) as error:
        del sys.modules[name]
        raise _unimportable(target, error) from error
    return module


def _unimportable(target: str, error: BaseException) -> TargetError:
    """What went wrong in the author's code, and where."""
    message = describe_error(error)
    hint = "repair the module; `python -c 'import ...'` shows the whole traceback"
    if isinstance(error, PeragoError):
        message, hint = error.message, error.hint or "repair the declaration"
    place = _place_of(error)
    return TargetError(
        f"{target} cannot be imported: {message}{f' ({place})' if place else ''}", hint=hint
    )


def _place_of(error: BaseException) -> str | None:
    """The innermost line that is neither Perago's nor the import system's."""
    if isinstance(error, SyntaxError) and error.filename:
        return f"{error.filename}:{error.lineno}"
    own = str(Path(__file__).parent.parent)
    for frame in reversed(traceback.extract_tb(error.__traceback__)):
        # "<" begins the frozen import system, and code that dataclasses made up.
        if not frame.filename.startswith((own, "<", importlib.__file__)):
            return f"{frame.filename}:{frame.lineno}"
    return None
