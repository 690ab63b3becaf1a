"""`perago extract`: TaskDefs and WorkflowDefs as the JSON that Conductor takes."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from perago.cli.check import Targets
from perago.cli.context import JsonFlag, help_text
from perago.cli.output import Output, dump_json, plural
from perago.domain.errors import EnvironmentUnfitError
from perago.domain.outcome import JsonObject, JsonValue

HELP = help_text(
    "Write the Conductor definitions of tasks and pipelines.",
    {
        "perago extract flights.py": "one JSON document on stdout",
        "perago extract flights.py --out conductor": "taskdefs/NAME.json, workflows/NAME.vN.json",
    },
    "They are what `perago register` would register. What is unwise about a declaration is said on "
    "stderr.",
)


def extract(
    targets: Targets,
    out: Annotated[
        Path | None,
        typer.Option("--out", metavar="DIR", help="Write files below this directory instead."),
    ] = None,
    as_json: JsonFlag = False,
) -> None:
    """Write definitions."""
    from perago.authoring import build_definition_set, warnings_of
    from perago.cli.targets import load_declarations

    output = Output(as_json=as_json)
    declared = build_definition_set(load_declarations(targets, Path.cwd()))
    for task in declared.tasks:
        for warning in warnings_of(task):
            output.note(f"warning: {warning}")
    taskdefs = {str(one["name"]): one for one in declared.task_definitions}
    workflows = {f"{one['name']}.v{one['version']}": one for one in declared.workflow_definitions}
    if out is None:
        first: list[JsonValue] = list(taskdefs.values())
        second: list[JsonValue] = list(workflows.values())
        Output(as_json=True).answer({"taskdefs": first, "workflows": second})
        return
    files = [*_write(out / "taskdefs", taskdefs), *_write(out / "workflows", workflows)]
    output.answer({"files": list(files)})
    output.say(
        f"wrote {plural(len(taskdefs), 'task definition')} and "
        f"{plural(len(workflows), 'workflow definition')} to {out}"
    )


def _write(directory: Path, definitions: dict[str, JsonObject]) -> list[str]:
    """Write one file per definition and say which."""
    written: list[str] = []
    try:
        directory.mkdir(parents=True, exist_ok=True)
        for name, definition in definitions.items():
            file = directory / f"{name}.json"
            file.write_text(dump_json(definition, indent=2) + "\n", encoding="utf-8")
            written.append(str(file))
    except OSError as error:
        raise EnvironmentUnfitError(
            f"cannot write to {directory}: {error.strerror}", hint="choose another --out"
        ) from error
    return written
