"""Where a command's words go, and how values look to people.

Invariants: the answer goes to stdout, everything said beside it to stderr. With `--json` stdout
holds JSON and nothing else. What is not a terminal gets neither colour, nor boxes, nor cut lines.
Nothing but an answer that was asked for with its secrets (`perago dev env`) holds one.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from datetime import datetime

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from perago.cli.known_secrets import current_redactor
from perago.domain.outcome import JsonValue
from perago.domain.visible_text import indent_rest, visible_json, visible_lines

_COMMIT_CHARACTERS = 12
_RUN_CHARACTERS = 8
"""How much of an id people see: enough to be typed back as `REPO@REF` or `RUN`."""


class Output:
    """One command's stdout and stderr; with `secrets` it says them, too."""

    def __init__(self, *, as_json: bool = False, secrets: bool = False) -> None:
        self.as_json = as_json
        self._secrets = secrets
        self.console = Console(markup=False, highlight=False, emoji=False, soft_wrap=True)
        self._notes = Console(
            stderr=True, markup=False, highlight=False, emoji=False, soft_wrap=True
        )

    @property
    def is_live(self) -> bool:
        """Whether what was printed can be redrawn."""
        console = self.console
        return not self.as_json and console.is_terminal and not console.is_dumb_terminal

    def say(self, text: str = "", *, style: str | None = None) -> None:
        """A line of the answer, for people; a program does not get it."""
        if not self.as_json:
            shown = visible_lines(text) if self._secrets else printable(text)
            self.console.print(Text(indent_rest(shown), style=style or ""))

    def note(self, text: str) -> None:
        """Something that is not the answer."""
        self._notes.print(Text(indent_rest(printable(text))))

    def answer(self, document: JsonValue) -> None:
        """The answer as JSON; people do not get it."""
        if self.as_json:
            sys.stdout.write(dump_json(self._hide(document), indent=2) + "\n")

    def event(self, document: JsonValue) -> None:
        """One line of a running answer as JSON."""
        sys.stdout.write(dump_json(self._hide(document)) + "\n")
        sys.stdout.flush()

    def _hide(self, document: JsonValue) -> JsonValue:
        return document if self._secrets else current_redactor().apply_to_json(document)

    def table(self, columns: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
        """Rows below a heading, for people; a column named `#…` is a number."""
        if self.as_json:
            return
        shown = [[printable(cell).replace("\n", "\\n") for cell in row] for row in rows]
        if self.console.is_terminal:
            self.console.print(_rich_table(columns, shown), soft_wrap=False)
        else:
            for line in _plain_table(columns, shown):
                self.console.print(Text(line))


def _rich_table(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> Table:
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, show_edge=False)
    for column in columns:
        number = column.startswith("#")
        table.add_column(column.lstrip("#"), justify="right" if number else "left", overflow="fold")
    for row in rows:
        table.add_row(*(Text(cell, style=status_style(cell)) for cell in row))
    return table


def _plain_table(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    lines = [[column.lstrip("#").upper() for column in columns], *rows]
    widths = [max(len(line[index]) for line in lines) for index in range(len(columns))]
    return [
        "  ".join(
            cell.rjust(width) if column.startswith("#") else cell.ljust(width)
            for cell, width, column in zip(line, widths, columns, strict=True)
        ).rstrip()
        for line in lines
    ]


def status_style(text: str) -> str:
    """The colour of a status, or none for any other text."""
    if text == "COMPLETED":
        return "green"
    if text in ("RUNNING", "IN_PROGRESS", "SCHEDULED"):
        return "cyan"
    bad = ("FAILED", "FAILED_WITH_TERMINAL_ERROR", "TIMED_OUT", "TERMINATED", "CANCELED")
    return "red" if text in bad else ""


def dump_json(document: JsonValue, *, indent: int | None = None) -> str:
    """JSON that any stdout can carry."""
    # Elsewhere than on UTF-8, escapes are the only spelling that surely arrives.
    plain = (sys.stdout.encoding or "").lower().replace("-", "") != "utf8"
    # JSON lets controls above ASCII through, and a terminal obeys some of them.
    return visible_json(json.dumps(document, indent=indent, ensure_ascii=plain))


def printable(text: str) -> str:
    """The text without secrets, and without what would command a terminal."""
    return visible_lines(current_redactor().apply(text))


def short(commit: str) -> str:
    """The beginning of a commit id."""
    return commit[:_COMMIT_CHARACTERS]


def short_run(run: str) -> str:
    """The beginning of a run's id."""
    return run[:_RUN_CHARACTERS]


def show_bytes(size: int) -> str:
    """A size as people read it: `4.2 MB`."""
    amount = float(size)
    for unit in ("B", "kB", "MB", "GB"):
        if amount < 1000:
            return f"{amount:.0f} {unit}" if unit == "B" else f"{amount:.1f} {unit}"
        amount /= 1000
    return f"{amount:.1f} TB"


def show_seconds(seconds: float) -> str:
    """A duration as people read it: `0.42 s`, `1 m 05 s`, `2 h 03 m`."""
    if seconds < 10:
        return f"{seconds:.2f} s"
    if seconds < 60:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(int(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes:02} m" if hours else f"{minutes} m {rest:02} s"


def show_time(moment: datetime | None) -> str:
    """A moment on this machine's clock."""
    return "" if moment is None else moment.astimezone().strftime("%Y-%m-%d %H:%M:%S")


def json_time(moment: datetime | None) -> str | None:
    """A moment for programs."""
    return None if moment is None else moment.isoformat()


def plural(count: int, noun: str) -> str:
    """`1 file`, `2 files`."""
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"
