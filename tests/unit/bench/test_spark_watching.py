"""What `python -m bench spark` watches with: every byte is counted, every file is seen."""

from __future__ import annotations

import http.client
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import closing
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from bench.spark.relay import CountingRelay
from bench.spark.usage import UsageWatch, disk_bytes, peak_memory

MIB = 1024**2


class Echo(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_PUT(self) -> None:
        content = self.rfile.read(int(self.headers["Content-Length"]))
        self.send_response(200)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002
        """Not of interest."""


@pytest.fixture
def server() -> Iterator[str]:
    with ThreadingHTTPServer(("127.0.0.1", 0), Echo) as running:
        thread = threading.Thread(target=running.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{running.server_port}"
        running.shutdown()
        thread.join()


def put(endpoint: str, *bodies: bytes) -> list[bytes]:
    answers = []
    with closing(http.client.HTTPConnection(urlsplit(endpoint).netloc, timeout=30)) as connection:
        for body in bodies:
            connection.request("PUT", "/x", body)
            answers.append(connection.getresponse().read())
    return answers


def test_everything_passes_and_is_counted_both_ways(server: str) -> None:
    content = os.urandom(3 * MIB)
    with CountingRelay(server) as relay:
        assert put(relay.endpoint, content, b"small") == [content, b"small"]
        assert put(relay.endpoint, b"again") == [b"again"]
    traffic = relay.traffic
    for passed in (traffic.sent, traffic.received):
        assert len(content) < passed < len(content) + 4096
    assert traffic.total == traffic.sent + traffic.received


def test_an_open_connection_does_not_keep_it_from_ending(server: str) -> None:
    with CountingRelay(server) as relay:
        connection = http.client.HTTPConnection(urlsplit(relay.endpoint).netloc, timeout=30)
        connection.request("PUT", "/x", b"kept")
        assert connection.getresponse().read() == b"kept"
    connection.close()
    assert relay.traffic.received > 4


def test_a_server_that_is_gone_ends_the_connection() -> None:
    with CountingRelay("http://127.0.0.1:1") as relay, pytest.raises(ConnectionError):
        put(relay.endpoint, b"lost")
    assert relay.traffic.total == 0


def test_disk_is_counted_below_a_place(tmp_path: Path) -> None:
    assert disk_bytes(tmp_path / "nowhere") == 0
    (tmp_path / "a" / "b").mkdir(parents=True)
    (tmp_path / "a" / "b" / "file").write_bytes(os.urandom(MIB))
    assert MIB <= disk_bytes(tmp_path) < 2 * MIB


def test_peaks_of_a_process_are_seen(tmp_path: Path) -> None:
    """It holds its memory and its file until the watch has looked."""
    place = tmp_path / "workspaces"
    place.mkdir()
    body = (
        "import pathlib, sys\n"
        "held = bytearray(b'x' * 64 * 1024**2)\n"
        f"pathlib.Path({str(place / 'file')!r}).write_bytes(b'x' * 1024**2)\n"
        "print('ready', flush=True); sys.stdin.read()"
    )
    process = subprocess.Popen(
        [sys.executable, "-c", body], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    assert process.stdout is not None
    assert process.stdin is not None
    assert process.stdout.readline() == b"ready\n"
    seen = threading.Event()
    with UsageWatch(process.pid, {"workspaces": place}) as watch:
        while not watch.peaks.python:
            assert not seen.wait(0.05)
        process.stdin.close()
        process.wait()
    process.stdout.close()
    assert watch.peaks.python > 64 * MIB
    assert watch.peaks.jvm == 0
    assert watch.peaks.disk["workspaces"] >= MIB
    assert watch.peaks.disk_together == watch.peaks.disk["workspaces"]


def test_a_process_that_is_gone_holds_nothing() -> None:
    process = subprocess.Popen([sys.executable, "-c", ""])
    process.wait()
    assert peak_memory(process.pid) == 0
