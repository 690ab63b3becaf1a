"""The log of a Delta table, replayed: which files are the table, and what its columns are.

Invariant: what it does not know how to read is refused, never passed over: a log that is read
wrongly counts rows that were deleted. It knows commits and whole checkpoints; it refuses deletion
vectors, mapped columns, and every feature of readers that it has not heard of.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

import pyarrow.parquet

_COMMIT = re.compile(r"(\d{20})\.json")
_CHECKPOINT = re.compile(r"(\d{20})\.checkpoint(?:\.(\d{10})\.(\d{10}))?\.parquet")
_NEWEST_READER = 3
_KNOWN_FEATURES = frozenset(
    # The first two as long as the table makes no use of them.
    {"columnMapping", "deletionVectors", "timestampNtz", "vacuumProtocolCheck"}
)
_CHECKPOINT_COLUMNS = (
    *("add.path", "add.partitionValues", "add.deletionVector"),
    *("metaData", "protocol"),
)


class DeltaLogError(Exception):
    """Why a log cannot be read here."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DeltaSnapshot:
    """A Delta table as its newest version has it."""

    version: int
    columns: Mapping[str, Any]
    """Their types as the log spells them: a name, or an object for one that has types inside."""
    partition_columns: tuple[str, ...]
    files: Mapping[str, Mapping[str, str | None]]
    """The data files, relative to the table, with the values of the partition columns."""


@dataclass(slots=True)
class _State:
    files: dict[tuple[str, str | None], Mapping[str, str | None]] = field(default_factory=dict)
    """By path, and by the deletion vector that leaves rows of it out."""
    metadata: Mapping[str, Any] | None = None
    protocol: Mapping[str, Any] | None = None

    def apply(self, action: Mapping[str, Any]) -> None:
        if (add := action.get("add")) is not None:
            self.files[_key_of(add)] = dict(add["partitionValues"] or {})
        if (remove := action.get("remove")) is not None:
            self.files.pop(_key_of(remove), None)
        self.metadata = action.get("metaData") or self.metadata
        self.protocol = action.get("protocol") or self.protocol


def read_snapshot(log: Path) -> DeltaSnapshot:
    """The newest version of the table with this log; `DeltaLogError` where it cannot be told."""
    names = sorted(path.name for path in log.iterdir())
    commits = {int(match[1]): name for name in names if (match := _COMMIT.fullmatch(name))}
    start, parts = _newest_checkpoint(names)
    newest = max([start, *commits])
    if newest < 0:
        raise DeltaLogError("its log is empty")
    state = _State()
    for part in parts:
        for action in _checkpoint_actions(log / part):
            state.apply(action)
    for version in range(start + 1, newest + 1):
        if version not in commits:
            raise DeltaLogError(f"its log lacks version {version}")
        for action in _commit_actions(log / commits[version]):
            state.apply(action)
    return _snapshot(state, newest)


def _newest_checkpoint(names: Iterable[str]) -> tuple[int, list[str]]:
    """The version and the files of the newest checkpoint that is whole; -1 where there is none."""
    found: dict[tuple[int, int], list[str]] = {}
    for name in names:
        if match := _CHECKPOINT.fullmatch(name):
            found.setdefault((int(match[1]), int(match[3] or 1)), []).append(name)
    whole = [(version, parts) for version, parts in found if len(found[version, parts]) == parts]
    if not whole:
        return -1, []
    newest = max(whole)
    return newest[0], found[newest]


def _commit_actions(commit: Path) -> Iterator[Mapping[str, Any]]:
    # Not by `splitlines`: a JSON text may hold what Unicode calls the end of a line.
    for line in commit.read_text(encoding="utf-8").split("\n"):
        if line.strip():
            yield json.loads(line)


def _checkpoint_actions(checkpoint: Path) -> Iterator[Mapping[str, Any]]:
    with pyarrow.parquet.ParquetFile(checkpoint) as file:
        for batch in file.iter_batches(columns=list(_CHECKPOINT_COLUMNS)):
            yield from batch.to_pylist()


def _snapshot(state: _State, version: int) -> DeltaSnapshot:
    if state.metadata is None or state.protocol is None:
        raise DeltaLogError("its log does not say what its columns are")
    _refuse_unknown(state.protocol, dict(state.metadata.get("configuration") or {}))
    if any(vector is not None for _, vector in state.files):
        raise DeltaLogError("it has deletion vectors, which only Spark reads")
    schema = json.loads(state.metadata["schemaString"])
    return DeltaSnapshot(
        version=version,
        columns={column["name"]: column["type"] for column in schema["fields"]},
        partition_columns=tuple(state.metadata.get("partitionColumns") or ()),
        files={file: values for (file, _), values in state.files.items()},
    )


def _refuse_unknown(protocol: Mapping[str, Any], configuration: Mapping[str, str]) -> None:
    unknown = sorted({*(protocol.get("readerFeatures") or ())} - _KNOWN_FEATURES)
    if protocol["minReaderVersion"] > _NEWEST_READER:
        raise DeltaLogError(f"it needs a reader of version {protocol['minReaderVersion']}")
    if unknown:
        raise DeltaLogError(f"it has features that only Spark reads: {', '.join(unknown)}")
    if configuration.get("delta.columnMapping.mode", "none") != "none":
        raise DeltaLogError("its columns have other names in the files, which only Spark reads")


def _key_of(action: Mapping[str, Any]) -> tuple[str, str | None]:
    vector = action.get("deletionVector")
    if vector is None:
        return _file_of(action["path"]), None
    parts = (vector.get(name) for name in ("storageType", "pathOrInlineDv", "offset"))
    return _file_of(action["path"]), " ".join(map(str, parts))


def _file_of(path: str) -> str:
    """A path of the log as a path below the table; the log writes it as a URI."""
    address = urlsplit(path)
    if address.scheme or path.startswith("/"):
        raise DeltaLogError(f"it has a file outside of its directory: {path}")
    return unquote(path)
