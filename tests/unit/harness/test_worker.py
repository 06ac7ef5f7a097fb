"""A worker's process as tests run it, with a program that answers as a worker does."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
import yaml

from devstack.ports import free_port
from tests.harness.worker import running

PROGRAM = """
import json, os, pathlib, sys, yaml
from http.server import BaseHTTPRequestHandler, HTTPServer

settings = yaml.safe_load(pathlib.Path(os.environ["AQUEDUCT_CONFIG"]).read_text())
looks = 0

class Status(BaseHTTPRequestHandler):
    def do_GET(self):
        global looks
        looks += 1
        self.send_response(200)
        self.end_headers()
        self.wfile.write(json.dumps({"destinations": {"shop": {"rows": looks}}}).encode())

print("listening", flush=True)
HTTPServer(("127.0.0.1", settings["http"]["port"]), Status).serve_forever()
"""


def test_a_worker_is_waited_for_read_and_ended_with_the_block(tmp_path: Path) -> None:
    wanted = {"http": {"port": free_port()}}
    with running(wanted, tmp_path, command=(sys.executable, "-c", PROGRAM)) as worker:
        assert worker.wait(lambda status: status["rows"] >= 3) == {"rows": 3}
        assert worker.log.startswith("listening\n")
        assert yaml.safe_load((tmp_path / "aqueduct.yaml").read_text()) == wanted
        assert worker.get("/status")
    assert worker.process.returncode == -9
    assert worker.destination() == {}


def test_one_that_does_not_get_there_fails_with_its_logs_end(tmp_path: Path) -> None:
    ended = (sys.executable, "-c", "print('its last word')")
    with running({}, tmp_path, command=ended) as worker:
        worker.process.wait()
        with pytest.raises(AssertionError, match="its last word"):
            worker.wait(lambda _: True, seconds=0.1)
