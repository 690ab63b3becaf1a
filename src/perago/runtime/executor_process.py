"""One executor process as its supervisor holds it: the process, its connection, its watcher.

Invariant: nothing here waits for the executor. What it says is read as far as it is there, and what
it is told is written as far as the connection takes it, the rest later. So an executor that is
frozen, or floods its connection, costs the supervisor nothing but memory, which is bounded.
"""

from __future__ import annotations

import os
import secrets
import signal
from contextlib import suppress
from dataclasses import dataclass
from multiprocessing.connection import Connection
from multiprocessing.context import SpawnContext, SpawnProcess
from pathlib import Path

import psutil

from perago.domain.outcome import Phase
from perago.runtime.executor import EXIT_CODES, ExecutorFactory, executor_main
from perago.runtime.frames import NONCE_BYTES, BadFrameError, FrameReader, build_frame
from perago.runtime.leases import LEASE_LOST
from perago.runtime.messages import (
    FromExecutor,
    RunAttempt,
    ToExecutor,
    decode_from_executor,
    encode_to_executor,
)
from perago.runtime.shared_lease import AttemptCell
from perago.system.parent_watch import Guardian

_READ_BYTES = 1 << 16
_READS_PER_TURN = 16
"""A talkative body must not keep the loop busy."""

_LAST_READS = 1024
"""So much, at most, is read of what a dead executor had said."""

CLOSED = "its connection was closed: the body closed descriptors that are not its own"


@dataclass(frozen=True, slots=True, kw_only=True)
class WhatWasSaid:
    """Messages in their order, and why no more can be taken from this executor, if so."""

    messages: list[FromExecutor]
    broken: str | None = None


class ExecutorProcess:
    """A running executor. `start` it, then talk to it until it is gone, then `bury` it."""

    def __init__(
        self,
        number: int,
        context: SpawnContext,
        factory: ExecutorFactory,
        log_path: Path,
    ) -> None:
        """Start a process; `OSError` where the operating system refuses."""
        ours, theirs = context.Pipe()
        self._nonce = secrets.token_bytes(NONCE_BYTES)
        self._reader = FrameReader()
        self._unsent = bytearray()
        self._is_closed = False
        self._connection: Connection = ours
        self._guardian: Guardian | None = None
        self.cell: AttemptCell = context.RawValue(AttemptCell, LEASE_LOST)
        try:
            os.set_blocking(ours.fileno(), False)
            self._process: SpawnProcess = context.Process(
                target=executor_main,
                args=(number, theirs, self._nonce, self.cell, factory, log_path),
                name=f"perago-executor-{number}",
            )
            self._start()
        except BaseException:
            ours.close()
            raise
        finally:
            theirs.close()
        self.pipe = ours.fileno()
        """The descriptor that tells when the executor speaks."""
        self.sentinel: int = self._process.sentinel
        """The descriptor that tells when it ends, unless a forked child keeps it open."""

    def _start(self) -> None:
        # A Ctrl-C while the process imports must not end it with a traceback; it unblocks it.
        blocked = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
        try:
            self._process.start()
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, blocked)
        assert self._process.pid is not None
        try:
            self._guardian = Guardian(self._process.pid)
        except OSError:
            self._process.kill()
            self._process.join()
            raise

    # -- talking

    @property
    def has_unsent(self) -> bool:
        """Whether something waits until the connection takes it."""
        return bool(self._unsent) and not self._is_closed

    @property
    def is_listening(self) -> bool:
        """Whether more can be heard from it."""
        return not self._is_closed

    def send(self, message: ToExecutor) -> None:
        """Tell the executor something, now or as soon as it listens."""
        self._unsent += build_frame(self._nonce, encode_to_executor(message))
        if isinstance(message, RunAttempt):
            self._nonce = message.nonce
        self.flush()

    def flush(self) -> None:
        """Write what the connection takes now."""
        # An executor that died in this moment is noticed, and settled, by its death.
        with suppress(BlockingIOError, BrokenPipeError, ConnectionResetError):
            while self._unsent and not self._is_closed:
                del self._unsent[: os.write(self.pipe, self._unsent[:_READ_BYTES])]

    def read(self) -> WhatWasSaid:
        """What is there to be heard now."""
        return self._read(_READS_PER_TURN)

    def read_last(self) -> list[FromExecutor]:
        """All that a dead executor had said. Half a message, or a wrong one, ends it."""
        return self._read(_LAST_READS).messages

    def _read(self, times: int) -> WhatWasSaid:
        messages: list[FromExecutor] = []
        try:
            for _ in range(times):
                data = self._read_some()
                if data is None:
                    break
                self._reader.feed(data)
                while (payload := self._reader.next(self._nonce)) is not None:
                    messages += decode_from_executor(payload)
                if not data:
                    self._is_closed = True
                    return WhatWasSaid(messages=messages, broken=CLOSED)
        except BadFrameError as error:
            self._is_closed = True
            return WhatWasSaid(messages=messages, broken=f"its connection carried {error}")
        return WhatWasSaid(messages=messages)

    def _read_some(self) -> bytes | None:
        """What is there; empty when the other end is closed, None when there is nothing yet."""
        if self._is_closed:
            return None
        try:
            return os.read(self.pipe, _READ_BYTES)
        except BlockingIOError:
            return None
        except OSError:  # the other end was reset
            return b""

    # -- the process

    @property
    def pid(self) -> int:
        """The id of the process, and of its group."""
        assert self._process.pid is not None
        return self._process.pid

    @property
    def is_dead(self) -> bool:
        """Whether the process ended. Asked of the kernel: a forked child may keep the pipe open."""
        return not self._process.is_alive()

    @property
    def phase(self) -> Phase | None:
        """The phase that shared memory tells; None where a body wrote nonsense there."""
        return self.cell.phase

    @property
    def memory_bytes(self) -> int:
        """What the executor itself holds in memory now; 0 when it cannot be told."""
        try:
            return int(psutil.Process(self.pid).memory_info().rss)
        except psutil.Error:  # it is going away
            return 0

    def kill(self) -> None:
        """End the process with everything it started; its death is noticed later."""
        self._kill_group()
        self._process.kill()  # before it made its own group, the line above found none

    def bury(self) -> str:
        """Forget a dead process and end what it left running; say how it died."""
        self._kill_group()
        self._process.join()
        code = self._process.exitcode or 0
        self._process.close()
        if self._guardian is not None:
            self._guardian.dismiss()
        self._connection.close()
        self._is_closed = True
        return describe_exit(code)

    def end(self, seconds: float) -> None:
        """Wait until it ends by itself, and end it when it does not."""
        self._process.join(max(0.0, seconds))
        self.kill()
        self.bury()

    def _kill_group(self) -> None:
        """A process group keeps its id while anybody is in it, also after its leader is gone."""
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(self.pid, signal.SIGKILL)


def describe_exit(code: int) -> str:
    """How a process ended, from what `multiprocessing` says of it."""
    if code in EXIT_CODES:
        return EXIT_CODES[code]
    if code >= 0:
        return f"exit code {code}"
    try:
        return f"killed by {signal.Signals(-code).name}"
    except ValueError:  # a real-time signal has no name
        return f"killed by signal {-code}"
