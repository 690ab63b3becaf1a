"""The reference tells of every command, setting and exit code, and of no other."""

from pathlib import Path

import pytest

from tests.architecture.reference_blocks import PAGES, commands, parts, render

CLI, SETTINGS = PAGES


@pytest.mark.parametrize(
    ("page", "name"), [(page, name) for page in PAGES for name in parts(page)], ids=str
)
def test_a_generated_part_is_up_to_date(page: Path, name: str) -> None:
    assert parts(page)[name] == render(name), "run `python -m tests.architecture.reference_blocks`"


def test_every_command_is_described_under_its_own_heading() -> None:
    text = CLI.read_text(encoding="utf-8")
    headings = [
        line.strip("# `") for line in text.splitlines() if line.startswith(("## `", "### `"))
    ]

    assert [*parts(CLI)] == ["exit codes", *headings]
    assert sorted(headings) == sorted(commands())


def test_the_settings_are_there() -> None:
    assert [*parts(SETTINGS)] == ["settings"]
