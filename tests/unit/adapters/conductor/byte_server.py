"""An HTTP server that answers every request with the bytes that it was given last."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager


class ByteServer:
    """It takes one connection at a time, and keeps it; only requests without a body."""

    def __init__(self) -> None:
        self.answer = b""
        self.answers: dict[bytes, bytes] = {}
        """For some paths, whatever `answer` is."""
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self._listener.getsockname()[1]}"

    def serve(self) -> None:
        """Until `close`."""
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            with connection:
                connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                self._answer_all(connection)

    def close(self) -> None:
        """Take no further connection."""
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()

    def _answer_all(self, connection: socket.socket) -> None:
        read = b""
        while chunk := connection.recv(65536):
            read += chunk
            while b"\r\n\r\n" in read:
                asked, _, read = read.partition(b"\r\n\r\n")
                answer = self.answers.get(asked.split(b" ")[1], self.answer)
                head = b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % len(answer)
                connection.sendall(head + answer)


@contextmanager
def byte_server() -> Iterator[ByteServer]:
    """Serve until the block ends."""
    server = ByteServer()
    thread = threading.Thread(target=server.serve)
    thread.start()
    try:
        yield server
    finally:
        server.close()
        thread.join()
