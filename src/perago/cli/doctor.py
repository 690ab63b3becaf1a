"""`perago doctor`: whether a worker could do its work here, and if not, why."""

from __future__ import annotations

from collections.abc import Generator, Iterator
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from perago.cli.context import GlobalOptions, JsonFlag, help_text, options_of
from perago.cli.errors import ExitCode
from perago.cli.output import Output, plural
from perago.cli.references import parse_place
from perago.domain.errors import SettingsError
from perago.domain.ids import BranchName, RepositoryName
from perago.domain.outcome import JsonValue

if TYPE_CHECKING:
    from perago.app.diagnosis import Check
    from perago.settings import ResolvedSettings, Settings

HELP = help_text(
    "Check that a worker can do its work here: settings, servers, permissions, clocks, disk.",
    {
        "perago doctor": "the repository and branch that `run` works on",
        "perago doctor flights@main": "another one",
        "perago doctor --target flights.py": "also whether Conductor has its definitions",
        "perago doctor --no-probe": "reads only; permissions are not tried",
    },
    "On lakeFS, what an attempt needs to be allowed is tried for real, on two hidden throw-away "
    "branches of the repository that are removed again. The target branch is only read, so what "
    "may be done to it by name is not known before it is done.",
    "A Conductor server is only read: whether it answers, as whom, its version and its clock.",
    "Exits with 1 when there is a problem; a warning is none.",
)

_FENCES = {
    "atomic": "atomic fence: of two racing publications one is refused",
    "soft": "soft fence: a race is detected afterwards, not excluded",
}
_LAKEFS_VALUES = {
    "lakefs_endpoint": "endpoint",
    "lakefs_access_key_id": "access key",
    "lakefs_secret_access_key": "secret",
}
_STYLES = {"warning": "yellow", "problem": "red", "skipped": "dim"}
_NAME_WIDTH = 14


def doctor(
    context: typer.Context,
    place: Annotated[
        str | None,
        typer.Argument(
            metavar="[REPO[@BRANCH]]", help="The target; what `run` works on unless given."
        ),
    ] = None,
    *,
    target: Annotated[
        list[str] | None,
        typer.Option(
            "--target",
            metavar="TARGET",
            help="Also whether what it declares is registered with Conductor. Repeatable.",
        ),
    ] = None,
    no_probe: Annotated[
        bool, typer.Option("--no-probe", help="Write nothing anywhere; try no permission.")
    ] = False,
    as_json: JsonFlag = False,
) -> None:
    """Check that a worker can do its work."""
    output = Output(as_json=as_json)
    checks: list[Check] = []
    found = _look_over(options_of(context), place, target or [], write=not no_probe)
    with closing(found):
        for check in found:
            checks.append(check)
            _show(output, check)
    _conclude(output, checks)


def _look_over(
    options: GlobalOptions, place: str | None, targets: list[str], *, write: bool
) -> Generator[Check, None, None]:
    from perago.app.diagnosis import examine, failed_by
    from perago.cli.doctor_machine import check_machine

    given = None if place is None else parse_place(place)
    try:
        resolved = options.resolve()
    except SettingsError as error:
        yield failed_by("settings", error)
        return
    settings = resolved.settings
    repository = settings.repository if given is None else given.repository
    branch = given.ref if given is not None and given.ref is not None else settings.branch
    yield _name_store(settings)
    complete = examine("settings", lambda: _check_settings(resolved))
    yield complete
    yield from check_machine(settings, write=write)
    if not complete.is_problem:
        yield from _check_conductor(settings, targets)
        target = RepositoryName(repository), BranchName(branch)
        yield from _check_store(settings, *target, write=write)


def _name_store(settings: Settings) -> Check:
    from perago.app.diagnosis import passed
    from perago.bootstrap import describe_store

    store = describe_store(settings)
    return passed("store", f"{store.kind} at {store.place}, {_FENCES[store.fencing]}")


def _check_settings(resolved: ResolvedSettings) -> Check:
    from perago.app.diagnosis import passed
    from perago.settings import require_complete

    settings = resolved.settings
    require_complete(settings)
    if settings.store == "embedded":
        return passed("settings", f"complete; the store is chosen by {resolved.sources['store']}")
    shown = settings.shown()
    values = [
        # Of the secret, only where it comes from.
        f"{word} {'set' if word == 'secret' else shown[name]} ({resolved.sources[name]})"
        for name, word in _LAKEFS_VALUES.items()
    ]
    return passed("settings", "complete: " + ", ".join(values))


def _check_store(
    settings: Settings, repository: RepositoryName, branch: BranchName, *, write: bool
) -> Iterator[Check]:
    if settings.store == "embedded":
        from perago.cli.doctor_machine import check_embedded_store

        yield check_embedded_store(settings, repository, branch)
        return
    from perago.adapters.lakefs.probe import probe_lakefs
    from perago.bootstrap import lakefs_connection

    yield from probe_lakefs(lakefs_connection(settings), repository, branch, write=write)


def _check_conductor(settings: Settings, targets: list[str]) -> Iterator[Check]:
    if settings.orchestrator == "embedded":
        return
    from perago.adapters.conductor.probe import probe_conductor
    from perago.app.diagnosis import examine, skipped
    from perago.bootstrap import conductor_connection

    is_well = True
    for check in probe_conductor(conductor_connection(settings)):
        is_well = is_well and not check.is_problem
        yield check
    if not targets:
        yield skipped("definitions", "not compared: no --target given")
    elif is_well:
        yield examine("definitions", lambda: _compare_definitions(settings, targets))


def _compare_definitions(settings: Settings, targets: list[str]) -> Check:
    from perago.app.diagnosis import failed, passed
    from perago.app.register import plan_registration, read_registered
    from perago.authoring import build_definition_set
    from perago.bootstrap import open_application
    from perago.cli.targets import load_declarations

    declared = build_definition_set(load_declarations(targets, Path.cwd()))
    with open_application(settings) as application:
        plan = plan_registration(declared, read_registered(application.orchestrator, declared))
    if plan.to_write:
        found = ", ".join(f"{one.title} ({one.change})" for one in plan.to_write)
        return failed(
            "definitions",
            f"the server has not what the code declares: {found}",
            f"`perago register {' '.join(targets)}` shows and registers it",
        )
    count = plural(len(plan.definitions), "definition")
    return passed("definitions", f"{count} registered as declared")


def _show(output: Output, check: Check) -> None:
    style = _STYLES.get(check.verdict)
    output.say(f"{check.verdict:<8} {check.name:<{_NAME_WIDTH}} {check.found}", style=style)
    if check.advice is not None:
        output.say(f"{'':<8} {'':<{_NAME_WIDTH}} hint: {check.advice}")


def _conclude(output: Output, checks: list[Check]) -> None:
    problems = sum(check.is_problem for check in checks)
    warnings = sum(check.verdict == "warning" for check in checks)
    shown: list[JsonValue] = [
        {
            "check": check.name,
            "verdict": check.verdict.value,
            "found": check.found,
            "advice": check.advice,
        }
        for check in checks
    ]
    output.answer({"ok": not problems, "problems": problems, "warnings": warnings, "checks": shown})
    output.say()
    if problems:
        output.say(f"{plural(problems, 'problem')}, {plural(warnings, 'warning')}", style="red")
        raise typer.Exit(ExitCode.FAILED)
    output.say(f"no problem, {plural(warnings, 'warning')}", style="green")
