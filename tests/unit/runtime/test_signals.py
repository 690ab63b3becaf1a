import os
import signal

import pytest

from perago.runtime.signals import stop_on_signals


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_every_signal_is_a_request_until_the_block_ends(number: signal.Signals) -> None:
    heard: list[str] = []
    before = signal.getsignal(number)

    with stop_on_signals(lambda: heard.append("stop")):
        os.kill(os.getpid(), number)
        os.kill(os.getpid(), number)

    assert heard == ["stop", "stop"]
    assert signal.getsignal(number) is before


def test_the_old_handlers_come_back_after_an_error() -> None:
    before = signal.getsignal(signal.SIGINT)

    with pytest.raises(ZeroDivisionError), stop_on_signals(lambda: None):
        raise ZeroDivisionError

    assert signal.getsignal(signal.SIGINT) is before
