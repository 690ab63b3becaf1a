"""The files of a table: which of Spark's are data, what they are called, how they are moved in.

Invariant: names depend on the number and order of the files alone, never on a job id; and a table
is moved in as a whole or not at all.
"""

from __future__ import annotations

import re
import shutil
from collections.abc import Collection, Iterable, Mapping
from pathlib import Path, PurePosixPath

from perago.adapters.guardrails.views import is_hidden
from perago.domain.errors import TaskTerminalError

_SPARK_PART = re.compile(r"part-(\d+)-[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}[.-]c(\d+)(\..+)")
_STABLE_PART = re.compile(r"part-(\d+)\.")
_PARTITION_PART = re.compile(r"([^=]+)=")


def plan_names(written: Iterable[str], existing: Iterable[str]) -> dict[str, str]:
    """Give every data file that Spark wrote its stable name, as relative path to relative path.

    Numbers count up per directory, from where the files that are there already end. What is no
    data file (`_SUCCESS`, `.crc`) gets no name.
    """
    next_number = _next_numbers(existing)
    names: dict[str, str] = {}
    for _, path, suffix in sorted(_data_files(written)):
        parent = path.parent
        number = next_number.get(parent, 0)
        next_number[parent] = number + 1
        names[str(path)] = str(parent / f"part-{number:05d}{suffix}")
    return names


def partition_keys(files: Iterable[str]) -> tuple[str, ...] | None:
    """The keys by which a table is partitioned, from its paths; None when it has no data file."""
    for path in sorted(files):
        parts = PurePosixPath(path).parts
        if is_hidden(parts):
            continue
        matches = (_PARTITION_PART.match(part) for part in parts[:-1])
        return tuple(match[1] for match in matches if match is not None)
    return None


def list_files(directory: Path) -> list[str]:
    """The regular files below a directory, relative and sorted; links are not followed."""
    return sorted(
        path.relative_to(directory).as_posix()
        for path in directory.rglob("*")
        if path.is_file() and not path.is_symlink()
    )


def rename_into(source: Path, names: Mapping[str, str], destination: Path) -> None:
    """Move files to their names below a new directory."""
    destination.mkdir(parents=True)
    for old, new in names.items():
        target = destination / new
        target.parent.mkdir(parents=True, exist_ok=True)
        (source / old).rename(target)


def replace_table(new: Path, target: Path, *, set_aside: Path) -> None:
    """Put a directory in the place of whatever is at the target; on failure that is back there.

    All three are on one disk: a move is a rename, which is done or not.
    """
    target.parent.mkdir(parents=True, exist_ok=True)
    existed = target.exists()
    if existed:
        target.rename(set_aside)
    try:
        new.rename(target)
    except BaseException:
        if existed:
            set_aside.rename(target)
        raise


def add_to_table(
    new: Path, target: Path, *, instead_of: Collection[str] = (), set_aside: Path
) -> None:
    """Move files in beside those that are there, which stay but for some; all of it or nothing."""
    moves: list[tuple[Path, Path]] = []
    try:
        for name in sorted(instead_of):
            _move(target / name, set_aside / name, moves)
        for name in list_files(new):
            _move(new / name, target / name, moves)
    except BaseException:
        for source, destination in reversed(moves):
            if source.exists():
                # Between two disks a move is a copy, which may have ended halfway.
                destination.unlink(missing_ok=True)
            else:
                shutil.move(destination, source)
        raise


def _move(source: Path, destination: Path, moves: list[tuple[Path, Path]]) -> None:
    destination.parent.mkdir(parents=True, exist_ok=True)
    moves.append((source, destination))
    shutil.move(source, destination)


def _data_files(
    written: Iterable[str],
) -> Iterable[tuple[tuple[int, int], PurePosixPath, str]]:
    for text in written:
        path = PurePosixPath(text)
        if is_hidden(path.parts):
            continue
        match = _SPARK_PART.fullmatch(path.name)
        if match is None:
            # Never passed over in silence: it may hold rows.
            raise TaskTerminalError(
                f"Spark wrote {text!r}, which is not the name of a data file that Perago knows",
                hint="write the table with df.write to workspace.uri_out(path)",
            )
        yield (int(match[1]), int(match[2])), path, match[3]


def _next_numbers(existing: Iterable[str]) -> dict[PurePosixPath, int]:
    numbers: dict[PurePosixPath, int] = {}
    for text in existing:
        path = PurePosixPath(text)
        match = _STABLE_PART.match(path.name)
        if match is not None:
            numbers[path.parent] = max(numbers.get(path.parent, 0), int(match[1]) + 1)
    return numbers
