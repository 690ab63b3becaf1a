"""The files in deploy/ as values: the manifest's resources, the unit's lines, an image's stages."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from tests.architecture.docs_blocks import ROOT

DEPLOY = ROOT / "deploy"
MANIFEST = DEPLOY / "kubernetes" / "worker.yaml"
UNIT = DEPLOY / "systemd" / "perago-worker@.service"
DOCKERFILE = DEPLOY / "Dockerfile"
TEAM_DOCKERFILE = DEPLOY / "team.Dockerfile"

IMAGES = ("worker", "worker-spark")
"""The targets of the Dockerfile that are run."""

Resource = dict[str, Any]


def read_manifest() -> dict[str, Resource]:
    """The resources by their kinds; there is one of each."""
    resources: list[Resource] = list(yaml.safe_load_all(MANIFEST.read_text("utf-8")))
    found = {resource["kind"]: resource for resource in resources}
    assert len(found) == len(resources)
    return found


def read_unit() -> dict[str, list[tuple[str, str]]]:
    """The lines of each section; a key may come several times, as systemd allows."""
    sections: dict[str, list[tuple[str, str]]] = {}
    lines: list[tuple[str, str]] = []
    for line in UNIT.read_text("utf-8").splitlines():
        if line.startswith("["):
            lines = sections.setdefault(line.strip("[]"), [])
        elif line and not line.startswith("#"):
            key, _, value = line.partition("=")
            lines.append((key, value))
    return sections


@dataclass(slots=True)
class Stage:
    """One stage of a Dockerfile with its own instructions, in order."""

    name: str
    base: str
    instructions: list[tuple[str, str]] = field(default_factory=list)

    def all_of(self, keyword: str) -> list[str]:
        """What follows each instruction of this kind."""
        return [rest for word, rest in self.instructions if word == keyword]


def read_stages(dockerfile: Path) -> dict[str, Stage]:
    """The stages by their names; one without a name is called by its base."""
    stages: dict[str, Stage] = {}
    current: Stage | None = None
    for line in _logical_lines(dockerfile.read_text("utf-8")):
        word, _, rest = line.partition(" ")
        if word == "FROM":
            base, _, name = rest.partition(" AS ")
            current = stages[name or base] = Stage(name=name or base, base=base)
        else:
            assert current is not None, line
            current.instructions.append((word, rest.strip()))
    return stages


def instructions_of(stages: dict[str, Stage], name: str) -> list[tuple[str, str]]:
    """What an image has, the stages that it is built on included."""
    stage = stages[name]
    below = instructions_of(stages, stage.base) if stage.base in stages else []
    return [*below, *stage.instructions]


def last_of(instructions: list[tuple[str, str]], keyword: str) -> str:
    """What the last instruction of this kind says; it is the one that counts."""
    return [rest for word, rest in instructions if word == keyword][-1]


def variables_of(instructions: list[tuple[str, str]]) -> dict[str, str]:
    """What an image sets in its environment."""
    pairs = [pair for word, rest in instructions if word == "ENV" for pair in rest.split()]
    return dict(pair.split("=", 1) for pair in pairs)


def read_exec_form(text: str) -> list[str]:
    """The words of a command that runs without a shell."""
    words: list[str] = json.loads(text)
    return words


def _logical_lines(text: str) -> list[str]:
    kept = "\n".join(line for line in text.splitlines() if not line.startswith("#"))
    joined = re.sub(r"\s*\\\n\s*", " ", kept)
    return [line for line in joined.splitlines() if line.strip()]
