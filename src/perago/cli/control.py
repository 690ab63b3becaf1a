"""`perago cancel` and `perago complete`: what a person says to a run."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from perago.cli.context import JsonFlag, help_text, options_of
from perago.cli.output import Output, short, short_run
from perago.cli.params import read_json_object
from perago.cli.status import RunArgument
from perago.domain.errors import UsageError
from perago.domain.outcome import JsonObject

CANCEL_HELP = help_text(
    "End a run. What it published stays published.",
    {
        "perago cancel last": "the newest run",
        'perago cancel 3f2a9c41 --reason "wrong year"': "said in `perago status`",
    },
    "A worker that is running one of its steps gives the step up at its next heartbeat.",
)

COMPLETE_HELP = help_text(
    "Complete a HUMAN step, so that its run goes on.",
    {
        "perago complete last approve": "with an empty output",
        """perago complete last approve --output '{"ok": true}'""": "for the steps that follow",
        'perago complete last approve --failed "bad numbers"': "fail it instead",
    },
    "For a step that writes the workspace, the steps that follow go on from the branch's head, or "
    "from --ref. RUN is an id, a unique beginning of one, or `last`.",
)


def cancel(
    context: typer.Context,
    run: RunArgument,
    reason: Annotated[
        str, typer.Option("--reason", help="Why; kept with the run.")
    ] = "cancelled by hand",
    as_json: JsonFlag = False,
) -> None:
    """End a run."""
    from perago.app.follow import find_run
    from perago.bootstrap import open_application

    output = Output(as_json=as_json)
    with open_application(options_of(context).settings()) as application:
        found = find_run(application.orchestrator, run)
        was_over = found.status.is_terminal
        application.orchestrator.terminate(found.id, reason)
        now = application.orchestrator.workflow(found.id)
    output.answer({"run": now.id, "status": now.status.value, "cancelled": not was_over})
    if was_over:
        output.say(f"run {short_run(now.id)} was over already: {now.status}")
    else:
        output.say(f"run {short_run(now.id)} is {now.status}: {reason}")


def complete(
    context: typer.Context,
    run: RunArgument,
    step: Annotated[
        str, typer.Argument(metavar="STEP", help="The reference name of the HUMAN step.")
    ],
    *,
    output_json: Annotated[
        str | None, typer.Option("--output", metavar="JSON", help="The step's output.")
    ] = None,
    output_file: Annotated[
        Path | None, typer.Option("--output-file", help="The step's output, from a JSON file.")
    ] = None,
    ref: Annotated[
        str | None,
        typer.Option("--ref", help="Where the workspace goes on, for a step that writes it."),
    ] = None,
    failed: Annotated[
        str | None, typer.Option("--failed", metavar="REASON", help="Fail the step instead.")
    ] = None,
    as_json: JsonFlag = False,
) -> None:
    """Complete a HUMAN step."""
    from perago.app.complete_step import HumanAnswer, complete_step
    from perago.app.follow import find_run
    from perago.bootstrap import open_application

    output = Output(as_json=as_json)
    if sum(value is not None for value in (output_json, output_file, failed)) > 1:
        raise UsageError(
            "--output, --output-file and --failed exclude each other", hint="give one of them"
        )
    answer = HumanAnswer(output=_read_output(output_json, output_file), ref=ref, failure=failed)
    with open_application(options_of(context).settings()) as application:
        found = find_run(application.orchestrator, run)
        reported = complete_step(
            found,
            step,
            answer,
            orchestrator=application.orchestrator,
            store=application.store,
        )
        now = application.orchestrator.workflow(found.id)
    output.answer({"run": now.id, "status": now.status.value, "step": step, "output": reported})
    verb = "failed" if reported is None else "completed"
    output.say(f"{step} {verb}; run {short_run(now.id)} is {now.status}")
    if reported is not None and isinstance(workspace := reported.get("workspace"), dict):
        output.say(f"the workspace goes on at {short(str(workspace['ref']))}")


def _read_output(text: str | None, file: Path | None) -> JsonObject:
    if text is not None:
        return read_json_object(text, "--output")
    if file is None:
        return {}
    try:
        return read_json_object(file.read_text(encoding="utf-8"), str(file))
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"cannot read {file}: {error}", hint="check the path") from error
