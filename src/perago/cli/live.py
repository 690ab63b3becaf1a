"""A run on a terminal: one line per step, redrawn in place."""

from __future__ import annotations

from types import TracebackType
from typing import Self

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.spinner import Spinner
from rich.table import Table
from rich.text import Text

from perago.cli.board import Board, StepLine, StepStatus
from perago.cli.output import printable, short, short_run, show_seconds
from perago.cli.views import RunHeader, say_stopping, say_waiting
from perago.domain.events import Event, ExecutorDied
from perago.domain.visible_text import indent_rest, visible
from perago.domain.workflow import TaskState, WorkflowState

_REDRAWS_PER_SECOND = 10

_ICONS = {
    StepStatus.PENDING: ("·", "dim"),
    StepStatus.WAITING: ("◆", "yellow"),
    StepStatus.RETRYING: ("↻", "yellow"),
    StepStatus.COMPLETED: ("✓", "green"),
    StepStatus.FAILED: ("✗", "red"),
    StepStatus.CANCELLED: ("-", "dim"),
}


class LiveView:
    """Draws a board several times a second; what is said once goes above it."""

    def __init__(self, console: Console, board: Board) -> None:
        self._console = console
        self._board = board
        self._spinners: dict[str, Spinner] = {}
        self._notice = ""
        self._live = Live(
            get_renderable=self._draw,
            console=console,
            refresh_per_second=_REDRAWS_PER_SECOND,
        )

    def __enter__(self) -> Self:
        self._live.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._live.stop()

    def run_began(self, header: RunHeader) -> None:
        """Say which run this is, above the board."""
        workflow = header.workflow
        verb = "continuing" if header.continued else "run"
        text = Text(
            printable(f"{verb} {short_run(workflow.id)}  {workflow.name} v{workflow.version}")
        )
        if header.workspace is not None:
            place = printable(header.workspace[0])
            text.append(f"  on {place} from {short(header.workspace[1])}", "dim")
        self._console.print(text)
        if header.workspace is not None:
            self._say(f"store: {header.store}", "dim")
        if header.server is not None:
            self._say(f"orchestrator: {header.server}", "dim")

    def observed(self, workflow: WorkflowState) -> None:
        """Let the orchestrator's word stand."""
        self._board.observe(workflow)

    def attempt_seen(self, task: TaskState) -> None:
        """The step runs elsewhere."""
        worker = task.attempt.worker_id
        self._board.start(task.attempt, place=f"on {worker}" if worker else "running")

    def attempt_over(self, task: TaskState) -> None:
        """What was observed says it."""

    def step_waits(self, task: TaskState, how_to_complete: str | None) -> None:
        """Say what to do, above the board, where it can be copied."""
        self._say(f"{task.attempt.reference_name} {say_waiting(task, how_to_complete)}", "yellow")

    def stop_requested(self, *, hurry: bool) -> None:
        """Show it with the next redraw."""
        self._notice = say_stopping(hurry=hurry)

    def warn(self, text: str) -> None:
        """Say it above the board."""
        self._say(f"warning: {text}", "yellow")

    def handle(self, event: Event) -> None:
        """Keep the board up to date. A death is worth a line that stays."""
        if isinstance(event, ExecutorDied):
            where = f" in {event.attempt.reference_name}" if event.attempt is not None else ""
            self._say(f"an executor died{where}: {event.how}", "red")
        else:
            self._board.handle(event)

    def _say(self, text: str, style: str) -> None:
        self._console.print(Text(indent_rest(printable(text)), style=style))

    def _draw(self) -> RenderableType:
        table = Table.grid(padding=(0, 2, 0, 0))
        for line in self._board.lines():
            table.add_row(
                self._icon(line),
                Text(
                    visible(line.reference),
                    style="bold" if line.status is StepStatus.RUNNING else "",
                ),
                Text(describe_work(line), overflow="ellipsis", no_wrap=True),
                Text(describe_transfer(line), style="dim", no_wrap=True),
                Text("" if line.seconds is None else show_seconds(line.seconds), no_wrap=True),
                Text(f"retry {line.retries}" if line.retries else "", style="yellow"),
            )
        return Group(table, Text(self._notice, style="yellow")) if self._notice else table

    def _icon(self, line: StepLine) -> RenderableType:
        if line.status is StepStatus.RUNNING:
            # One spinner per step, kept: its first frame is when it was made.
            return self._spinners.setdefault(line.reference, Spinner("dots", style="cyan"))
        icon, style = _ICONS[line.status]
        return Text(icon, style=style)


def describe_work(line: StepLine) -> str:
    """What a step is doing, in a few words."""
    words = printable(line.message).partition("\n")[0]
    match line.status:
        case StepStatus.RUNNING:
            share = "" if line.fraction is None else f" {line.fraction:.0%}"
            at = visible(str(line.phase or line.place or "starting"))
            parts = [at, f"{words}{share}".strip(), printable(line.spark)]
            return "  ".join(filter(None, parts))
        case StepStatus.FAILED:
            return words
        case StepStatus.WAITING:
            return "waits for a person" if line.kind == "HUMAN" else "waits"
        case StepStatus.RETRYING:
            return "is tried again soon"
        case _:
            return ""


def describe_transfer(line: StepLine) -> str:
    """What a step is moving and how fast, or else what it has moved."""
    now = line.moved_in_phase
    if line.status is StepStatus.RUNNING and now.objects:
        return ", ".join(filter(None, (str(now), now.speed)))
    return str(line.moved) if line.moved.objects else ""
