"""What every command has: the global options, the settings that follow, and its help."""

from __future__ import annotations

import os
import shlex
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.markup import escape

from perago.cli.errors import ExitCode
from perago.cli.known_secrets import learn_secrets

if TYPE_CHECKING:
    from perago.settings import ResolvedSettings, Settings

JsonFlag = Annotated[bool, typer.Option("--json", help="Answer with JSON on stdout.")]

EXIT_CODES = "Exit codes: " + ", ".join(f"{code} {code.meaning}" for code in ExitCode)

_HELP_WIDTH = 74
"""What fits into a terminal of 80 columns beside the margins."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GlobalOptions:
    """The options before the command's name."""

    home: Path | None = None
    variables: tuple[str, ...] = ()
    """What must stand before a command that is shown, such as `PERAGO_STORE=embedded`."""

    def resolve(self, **flags: object) -> ResolvedSettings:
        """The settings, each flag over every other source; None is a flag that was not given."""
        # Pydantic takes longer to import than `--help` may.
        from perago.settings import resolve_settings

        resolved = resolve_settings(flags={"home": self.home, **flags})
        learn_secrets(resolved.settings, os.environ)
        return resolved

    def settings(self, **flags: object) -> Settings:
        """The settings without their sources."""
        return self.resolve(**flags).settings

    def command(self, *words: str) -> str:
        """A command line to show: one that works from here, with the same home."""
        given = () if self.home is None else ("--home", str(self.home))
        return " ".join((*self.variables, shlex.join(("perago", *given, *words))))

    def on_embedded(self) -> GlobalOptions:
        """The same with store and orchestrator in the home, for commands that are shown too."""
        chosen = self.settings()
        away = [
            f"PERAGO_{name.upper()}=embedded"
            for name in ("store", "orchestrator")
            if getattr(chosen, name) != "embedded"
        ]
        return replace(self, variables=tuple(away))


def options_of(context: typer.Context) -> GlobalOptions:
    """The global options of this call."""
    options = context.obj
    return options if isinstance(options, GlobalOptions) else GlobalOptions()


def help_text(summary: str, examples: dict[str, str], *details: str) -> str:
    """A command's help: what it does, then examples, then the rest."""
    width = max(len(command) for command in examples)
    fits = all(width + len(note) < _HELP_WIDTH for note in examples.values())
    lines = ["[bold]Examples:[/bold]"]
    for command, note in examples.items():
        shown = f"[cyan]{escape(command)}[/cyan]"
        gap = " " * (width - len(command) + 2) if fits else "\n    "
        lines.append(f"{shown}{gap}{escape(note)}" if note else shown)
    return "\n\n".join([escape(summary), "\n".join(lines), *map(escape, details)])
