"""A real S3 server over HTTP on loopback, and a line to it that can be made to fail."""

from __future__ import annotations

import http.client
import os
import subprocess
import sys
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

from botocore.session import Session

from devstack.ports import free_port
from tests.harness.wait import until

CREDENTIALS = {
    "AWS_ACCESS_KEY_ID": "aqueduct",
    "AWS_SECRET_ACCESS_KEY": "not-a-real-secret",
    # Nobody asks a machine's own service for others.
    "AWS_EC2_METADATA_DISABLED": "true",
    "AWS_CONFIG_FILE": os.devnull,
    "AWS_SHARED_CREDENTIALS_FILE": os.devnull,
}
"""What a worker has in its environment."""


@dataclass(slots=True)
class S3Server:
    """A running server."""

    port: int
    _client: Any = None

    @property
    def endpoint(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def client(self) -> Any:
        """The library's own, made once as that takes long."""
        self._client = self._client or Session().create_client(
            "s3",
            region_name="us-east-1",
            endpoint_url=self.endpoint,
            aws_access_key_id=CREDENTIALS["AWS_ACCESS_KEY_ID"],
            aws_secret_access_key=CREDENTIALS["AWS_SECRET_ACCESS_KEY"],
        )
        return self._client

    def make(self, bucket: str) -> None:
        self.client().create_bucket(Bucket=bucket)

    def keys(self, bucket: str) -> list[str]:
        found = self.client().list_objects_v2(Bucket=bucket)
        return [one["Key"] for one in found.get("Contents", ())]

    @contextmanager
    def asking_who_it_is(self) -> Iterator[None]:
        """Credentials are looked at: nobody has any that are known."""
        self._ask_after(0)
        try:
            yield
        finally:
            self._ask_after(10**9)

    def _ask_after(self, requests: int) -> None:
        ask = urllib.request.Request(
            f"{self.endpoint}/moto-api/reset-auth",
            data=str(requests).encode(),
            headers={"Content-Type": "text/plain"},
        )
        urllib.request.urlopen(ask, timeout=10).close()


@contextmanager
def s3_server(folder: Path) -> Iterator[S3Server]:
    """A server of the test's own; it keeps all in memory."""
    port = free_port()
    command = [sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", str(port)]
    with (folder / "s3.log").open("wb") as log:
        process = subprocess.Popen(
            command, stdout=log, stderr=log, env={**os.environ, **CREDENTIALS}
        )
    try:
        _until_it_answers(port, process)
        yield S3Server(port)
    finally:
        process.kill()
        process.wait()


def _until_it_answers(port: int, process: subprocess.Popen[bytes]) -> None:
    def answers() -> bool:
        try:
            urllib.request.urlopen(f"http://127.0.0.1:{port}/", timeout=5).close()
        except OSError:
            return False
        return True

    until(
        answers,
        glance=0.1,
        hopeless=lambda: process.poll() is not None,
        late=lambda: "the S3 server ended or does not answer",
    )


class Line:
    """A way to a server; what it does to requests and answers can be set."""

    def __init__(self) -> None:
        self.port = 0
        self.repair()

    def repair(self) -> None:
        """Pass all on as it is, and forget what was."""
        self.answer: Callable[[str], int] = lambda _: 0
        """A status that it gives by itself, by method; 0 passes the request on."""
        self.sent: Callable[[bytes], bytes] = lambda body: body
        self.tag: Callable[[str], str] = lambda tag: tag
        self.asked: list[str] = []
        """The methods of all requests."""

    @property
    def endpoint(self) -> str:
        return f"http://127.0.0.1:{self.port}"


@contextmanager
def line_to(server: S3Server) -> Iterator[Line]:
    """Pass requests on to a server."""
    line = Line()

    class Passing(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def _pass(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            line.asked.append(self.command)
            status = line.answer(self.command)
            if status:
                self.send_response(status)
                self.send_header("Content-Length", "0")
                self.end_headers()
                return
            to = http.client.HTTPConnection("127.0.0.1", server.port, timeout=30)
            kept = {
                name: value
                for name, value in self.headers.items()
                # A server would find out by itself, if it knew what was sent.
                if name.lower() not in ("content-length", "content-md5", "expect")
            }
            to.request(self.command, self.path, line.sent(body) if body else None, kept)
            found = to.getresponse()
            content = found.read()
            self.send_response(found.status)
            for name, value in found.getheaders():
                if name.lower() == "etag":
                    self.send_header(name, line.tag(value))
                elif name.lower() not in ("date", "server", "connection", "transfer-encoding"):
                    self.send_header(name, value)
            self.end_headers()
            self.wfile.write(content)
            to.close()

        do_GET = do_PUT = do_HEAD = _pass  # noqa: N815 - the library's names

        def log_message(self, *_: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Passing) as listening:
        listening.daemon_threads = True
        line.port = listening.server_port
        thread = Thread(target=listening.serve_forever, daemon=True)
        thread.start()
        try:
            yield line
        finally:
            listening.shutdown()
            thread.join()
