"""The generated parts of the reference: every command, every setting, every exit code.

A part stands between ``<!-- generated: NAME -->`` and ``<!-- end -->``.
``python -m tests.architecture.reference_blocks`` writes all parts anew.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import typer
from rich.text import Text

from perago.cli.app import app
from perago.cli.errors import ExitCode
from perago.settings import ENVIRONMENT_PREFIX, Settings

ROOT = Path(__file__).resolve().parents[2]
PAGES = [ROOT / "docs" / "reference" / name for name in ("cli.md", "settings.md")]

_PART = re.compile(
    r"(?P<head><!-- generated: (?P<name>[^>]+) -->\n)(?P<body>.*?)(?P<tail><!-- end -->)",
    re.DOTALL,
)


def commands() -> dict[str, Any]:
    """Every command by its words, `perago` itself included."""

    def walk(command: Any, words: str) -> Iterator[tuple[str, Any]]:
        yield words, command
        for name, inner in getattr(command, "commands", {}).items():
            yield from walk(inner, f"{words} {name}")

    return dict(walk(typer.main.get_command(app), "perago"))


def parts(page: Path) -> dict[str, str]:
    """The generated parts of a page, as they stand there."""
    return {match["name"]: match["body"] for match in _PART.finditer(page.read_text("utf-8"))}


def render(name: str) -> str:
    """What a part should be."""
    if name == "settings":
        return _render_settings()
    if name == "exit codes":
        rows = [f"| {code.value} | {code.meaning} |" for code in ExitCode]
        return "\n".join(["| code | meaning |", "| --- | --- |", *rows]) + "\n"
    return _render_command(commands()[name])


def _render_command(command: Any) -> str:
    summary, examples, *details = Text.from_markup(command.help).plain.split("\n\n")
    lines = examples.splitlines()[1:]
    text = [summary, "", "```text", *lines, "```", ""]
    for detail in details:
        text += [detail, ""]
    rows = [_render_parameter(parameter) for parameter in command.params]
    if rows:
        text += ["| argument or option | meaning |", "| --- | --- |", *rows]
    return "\n".join(text).rstrip() + "\n"


def _render_parameter(parameter: Any) -> str:
    if parameter.param_type_name == "argument":
        names = f"`{parameter.metavar or parameter.name.upper()}`"
    else:
        value = "" if parameter.is_flag else f" {parameter.metavar or parameter.name.upper()}"
        names = ", ".join(f"`{option}{value}`" for option in parameter.opts)
    default = parameter.default
    shown = f" Default: `{default}`." if isinstance(default, int | str) and default else ""
    shown = "" if isinstance(default, bool) else shown
    return f"| {names} | {parameter.help}{shown} |"


def _render_settings() -> str:
    rows = ["| setting | environment | default | meaning |", "| --- | --- | --- | --- |"]
    for name, field in Settings.model_fields.items():
        default = "" if field.default in (None, "", {}) else f"`{_as_toml(field.default)}`"
        variable = f"`{ENVIRONMENT_PREFIX}{name.upper()}`"
        rows.append(f"| `{name}` | {variable} | {default} | {field.description} |")
    return "\n".join(rows) + "\n"


def _as_toml(value: object) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    return f'"{value}"' if isinstance(value, str | Path) else str(value)


def write() -> None:
    """Write every part anew."""
    for page in PAGES:
        text = _PART.sub(
            lambda match: match["head"] + render(match["name"]) + match["tail"],
            page.read_text(encoding="utf-8"),
        )
        page.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    write()
