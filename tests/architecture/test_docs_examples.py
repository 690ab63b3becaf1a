"""The examples in the documents are real: code is in a file, commands print what is shown."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.architecture.docs_blocks import (
    ROOT,
    Command,
    Shown,
    commands,
    example_directory,
    pages,
    shown_files,
)

LINK = re.compile(r"\]\((?!https?:|mailto:|#)([^)#\s]+)(#[^)]*)?\)")


def name(page: Path) -> str:
    return str(page.relative_to(ROOT))


@pytest.mark.parametrize(
    "block", [block for page in pages() for block in shown_files(page)], ids=lambda b: b.source
)
def test_a_code_block_is_its_file(block: Shown) -> None:
    assert block.shown == block.expected, (
        f"{name(block.page)} shows an older {block.source}: "
        "run `python -m tests.architecture.docs_blocks`"
    )


@pytest.mark.parametrize("page", [page for page in pages() if commands(page)], ids=name)
def test_the_commands_of_a_page_print_what_it_shows(page: Path, tmp_path: Path) -> None:
    directory = tmp_path / "here"
    source = example_directory(page)
    if source is None:
        directory.mkdir()
    else:
        shutil.copytree(source, directory, ignore=shutil.ignore_patterns("__pycache__"))
    environment = {
        **os.environ,
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
        "PERAGO_HOME": str(directory / ".perago"),
        "COLUMNS": "100",
    }
    for command in commands(page):
        done = subprocess.run(
            command.line,
            shell=True,
            cwd=directory,
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
        )
        assert done.returncode == command.exit_code, f"$ {command.line}\n{done.stdout}"
        assert_shown(command, done.stdout)


def assert_shown(command: Command, printed: str) -> None:
    """Every shown line was printed, in this order."""
    rest = [line.rstrip() for line in printed.splitlines()]
    for shown in command.output:
        pattern = ".*".join(re.escape(part) for part in shown.rstrip().split("…"))
        while rest and not re.fullmatch(pattern, rest[0]):
            rest.pop(0)
        assert rest, f"$ {command.line}\ndid not print:\n{shown}\nbut:\n{printed}"
        rest.pop(0)


@pytest.mark.parametrize("page", pages(), ids=name)
def test_links_lead_somewhere(page: Path) -> None:
    broken = [
        match[1]
        for match in LINK.finditer(page.read_text(encoding="utf-8"))
        if not (page.parent / match[1]).exists()
    ]

    assert broken == []
