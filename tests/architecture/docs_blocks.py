"""Reads the documents' examples: which file a code block shows, which commands a page runs.

Three comments in a Markdown page mean something:

- ``<!-- directory: examples/x -->`` the files that the page's commands find where they run
- ``<!-- file: examples/x/y.py from: "class A" until: "class B" -->`` the next code block is this
  part of that file; `from` and `until` are beginnings of lines, `until` excluded
- ``<!-- run -->`` or ``<!-- run fails: 1 -->`` the next console block is run, and what it shows is
  what was printed, where ``…`` stands for anything

``python -m tests.architecture.docs_blocks`` writes the code blocks anew.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]

_FILE = re.compile(
    r'<!-- file: (?P<path>\S+)( from: "(?P<start>[^"]+)")?( until: "(?P<end>[^"]+)")? -->\n'
    r"```(?P<language>\w+)\n(?P<body>.*?)```",
    re.DOTALL,
)
_RUN = re.compile(r"<!-- run( fails: (?P<code>\d+))? -->\n```console\n(?P<body>.*?)```", re.DOTALL)
_DIRECTORY = re.compile(r"<!-- directory: (\S+) -->")


@dataclass(frozen=True, slots=True, kw_only=True)
class Shown:
    """A code block and the text that it must hold."""

    page: Path
    source: str
    shown: str
    expected: str


@dataclass(slots=True, kw_only=True)
class Command:
    """A command of a page with the lines that the page shows below it."""

    line: str
    exit_code: int
    output: list[str] = field(default_factory=list)


def pages() -> list[Path]:
    """Every page for users."""
    readmes = sorted(ROOT.glob("README*.md"))
    return [*readmes, *sorted((ROOT / "docs").rglob("*.md")), *sorted(ROOT.glob("examples/*/*.md"))]


def shown_files(page: Path) -> Iterator[Shown]:
    """The code blocks of a page that show a file."""
    for match in _FILE.finditer(page.read_text(encoding="utf-8")):
        expected = read_part(ROOT / match["path"], match["start"], match["end"])
        yield Shown(page=page, source=match["path"], shown=match["body"], expected=expected)


def read_part(path: Path, start: str | None, end: str | None) -> str:
    """The lines from the first that begins with `start` up to the next that begins with `end`."""
    lines = path.read_text(encoding="utf-8").splitlines(keepends=True)
    first = 0 if start is None else _find(lines, start, 0, path)
    last = len(lines) if end is None else _find(lines, end, first + 1, path)
    return "".join(lines[first:last]).strip() + "\n"


def commands(page: Path) -> list[Command]:
    """The commands that a page runs, in order."""
    found: list[Command] = []
    for match in _RUN.finditer(page.read_text(encoding="utf-8")):
        for line in match["body"].splitlines():
            if line.startswith("$ "):
                found.append(Command(line=line[2:], exit_code=int(match["code"] or 0)))
            elif line.strip():
                found[-1].output.append(line)
    return found


def example_directory(page: Path) -> Path | None:
    """The files that the page's commands find where they run."""
    match = _DIRECTORY.search(page.read_text(encoding="utf-8"))
    return ROOT / match[1] if match else None


def rewrite(page: Path) -> bool:
    """Write the code blocks anew from their files; say whether the page changed."""
    text = page.read_text(encoding="utf-8")

    def replace(match: re.Match[str]) -> str:
        body = read_part(ROOT / match["path"], match["start"], match["end"])
        return match[0][: match.start("body") - match.start()] + body + "```"

    fresh = _FILE.sub(replace, text)
    if fresh == text:
        return False
    page.write_text(fresh, encoding="utf-8")
    return True


def _find(lines: list[str], start: str, first: int, path: Path) -> int:
    for number in range(first, len(lines)):
        if lines[number].startswith(start):
            return number
    raise AssertionError(f"{path.name} has no line that begins with {start!r}")


if __name__ == "__main__":
    for changed in filter(rewrite, pages()):
        print(changed.relative_to(ROOT))  # noqa: T201 - a tool for the terminal
