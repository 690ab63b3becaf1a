"""The policies and the table of permissions in docs/how-to/lakefs.md, as values."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import Any

from tests.architecture.docs_blocks import ROOT

PAGE = ROOT / "docs" / "how-to" / "lakefs.md"

_POLICY = re.compile(r"<!-- policy: (?P<name>\w+) -->\n```json\n(?P<body>.*?)```", re.DOTALL)
_TABLE = re.compile(r"<!-- table: permissions -->\n(?P<rows>(?:\|.*\n)+)")
_ACTION = re.compile(r"`(\w+:\w+)`")

Statement = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Row:
    """What a call needs; an empty action is no permission at all."""

    call: str
    action: str
    kind: str


def read_policy(name: str) -> list[Statement]:
    """The statements of a policy on the page."""
    found = {match["name"]: match["body"] for match in _POLICY.finditer(PAGE.read_text("utf-8"))}
    statements: list[Statement] = json.loads(found[name])["statement"]
    return statements


def read_table() -> list[Row]:
    """The rows of the page's table of permissions."""
    match = _TABLE.search(PAGE.read_text("utf-8"))
    assert match is not None
    rows = []
    for line in match["rows"].splitlines()[2:]:
        call, action, place = (cell.strip() for cell in line.strip("|").split("|"))
        named = _ACTION.search(action)
        kind = re.split(r"[ ,]", place)[0].strip("`")
        rows.append(Row(call.split("`")[1], named[1] if named else "", kind))
    return rows


def kind_of(resource: str) -> str:
    """What a policy's resource is: `repository`, `branch`, `object`, `namespace` or `*`."""
    path = resource.removeprefix("arn:lakefs:fs:::")
    if path == "*" or path.startswith("namespace/"):
        return path.partition("/")[0]
    parts = path.split("/")
    return parts[2] if len(parts) > 2 else parts[0]
