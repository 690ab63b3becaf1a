"""As much of an S3 server as lakeFS needs of a block store, in memory.

It checks no signatures; it records who came with which.
"""

from __future__ import annotations

import hashlib
import re
import threading
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlsplit

_RANGE = re.compile(r"bytes=(\d+)-(\d*)")


@dataclass(frozen=True, slots=True, kw_only=True)
class Visit:
    """A request that came."""

    method: str
    target: str
    headers: dict[str, str]

    @property
    def is_presigned(self) -> bool:
        return "X-Amz-Signature=" in self.target


@dataclass(slots=True)
class TinyS3:
    """The content of all buckets, and what is wrong with the server.

    `encrypts` makes its ETags something else than MD5s. `garbles` are the parts that it stores
    with another first byte, once each. `refusal` is what it answers to presigned requests, and
    `hang_ups` how many of them it cuts off.
    """

    endpoint: str = ""
    encrypts: bool = False
    garbles: set[int] = field(default_factory=set)
    refusal: tuple[int, bytes] | None = None
    hang_ups: int = 0
    objects: dict[str, bytes] = field(default_factory=dict)
    uploads: dict[str, dict[int, bytes]] = field(default_factory=dict)
    visits: list[Visit] = field(default_factory=list)
    lock: threading.Lock = field(default_factory=threading.Lock)

    def presigned(self, method: str) -> list[Visit]:
        """The requests at addresses that were signed for others."""
        with self.lock:
            return [found for found in self.visits if found.is_presigned and found.method == method]

    def etag_of(self, content: bytes) -> str:
        seed = b"secret" if self.encrypts else b""
        return hashlib.md5(seed + content).hexdigest()


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    s3: TinyS3

    def do_PUT(self) -> None:
        body = self._body()
        if "uploadId" not in self.query:
            self.s3.objects[self.key] = body
            self._answer(200, etag=self.s3.etag_of(body))
            return
        number = int(self.query["partNumber"])
        with self.s3.lock:
            if number in self.s3.garbles:
                self.s3.garbles.remove(number)
                body = bytes([body[0] ^ 1]) + body[1:]
            self.s3.uploads[self.query["uploadId"]][number] = body
        self._answer(200, etag=self.s3.etag_of(body))

    def do_POST(self) -> None:
        self._body()
        if "uploads" in self.query:
            upload = uuid.uuid4().hex
            self.s3.uploads[upload] = {}
            self._answer(
                200,
                f"<InitiateMultipartUploadResult><UploadId>{upload}</UploadId>"
                "</InitiateMultipartUploadResult>".encode(),
            )
            return
        parts = self.s3.uploads.pop(self.query["uploadId"])
        ordered = [parts[number] for number in sorted(parts)]
        self.s3.objects[self.key] = b"".join(ordered)
        joined = b"".join(bytes.fromhex(self.s3.etag_of(part)) for part in ordered)
        etag = f"{hashlib.md5(joined).hexdigest()}-{len(ordered)}"
        self._answer(
            200,
            f'<CompleteMultipartUploadResult><ETag>"{etag}"</ETag>'
            "</CompleteMultipartUploadResult>".encode(),
        )

    def do_GET(self) -> None:
        self._body()
        content = self.s3.objects.get(self.key)
        if content is None:
            self._answer(404, b"<Error><Code>NoSuchKey</Code><Message>none</Message></Error>")
            return
        status, etag = 200, self.s3.etag_of(content)
        if found := _RANGE.fullmatch(self.headers.get("Range", "")):
            end = int(found[2]) + 1 if found[2] else len(content)
            status, content = 206, content[int(found[1]) : end]
        self._answer(status, content, etag=etag)

    def do_HEAD(self) -> None:
        self.do_GET()

    def do_DELETE(self) -> None:
        self._body()
        if "uploadId" in self.query:
            self.s3.uploads.pop(self.query["uploadId"], None)
        else:
            self.s3.objects.pop(self.key, None)
        self._answer(204)

    @property
    def key(self) -> str:
        return urlsplit(self.path).path

    @property
    def query(self) -> dict[str, str]:
        found = parse_qs(urlsplit(self.path).query, keep_blank_values=True)
        return {name: values[0] for name, values in found.items()}

    def _body(self) -> bytes:
        """Read the request to its end, and record it."""
        with self.s3.lock:
            self.s3.visits.append(
                Visit(method=self.command, target=self.path, headers=dict(self.headers.items()))
            )
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        if "aws-chunked" in self.headers.get("Content-Encoding", ""):
            return _unchunk(body)
        return body

    def _answer(self, status: int, body: bytes = b"", *, etag: str | None = None) -> None:
        if "X-Amz-Signature" in self.query:
            with self.s3.lock:
                if self.s3.hang_ups:
                    self.s3.hang_ups -= 1
                    self.close_connection = True
                    return
            status, body = self.s3.refusal or (status, body)
        self.send_response(status)
        if etag is not None:
            self.send_header("ETag", f'"{etag}"')
        self.send_header("Last-Modified", "Mon, 01 Jan 2024 00:00:00 GMT")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - that is its name
        """Say nothing."""


def _unchunk(body: bytes) -> bytes:
    """Take the frames of AWS's streaming signatures off."""
    content, rest = b"", body
    while rest:
        head, _, rest = rest.partition(b"\r\n")
        size = int(head.split(b";")[0], 16)
        if not size:
            return content
        content, rest = content + rest[:size], rest[size + 2 :]
    return content


@contextmanager
def tiny_s3() -> Iterator[TinyS3]:
    """A server on a free loopback port."""
    s3 = TinyS3()
    handler = type("Handler", (_Handler,), {"s3": s3})
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    server.daemon_threads = True
    s3.endpoint = f"http://127.0.0.1:{server.server_port}"
    thread = threading.Thread(target=server.serve_forever, name="tiny-s3")
    thread.start()
    try:
        yield s3
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
