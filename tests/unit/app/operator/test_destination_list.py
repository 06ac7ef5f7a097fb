"""The output of `destination list`, with leaders that answer and leaders that do not."""

from __future__ import annotations

import argparse
import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from types import SimpleNamespace
from typing import Any, cast

import pytest

from app.operator import destination as destination_commands
from connectors.errors import CoordinationLost
from connectors.mysql.position import Coordinates, SourceOffset
from tables.state.cursor import Cursor
from tables.state.journal.records import Leader
from tables.state.operator_requests import Control, DesiredState

STATUS = {
    "worker": "a",
    "destinations": {
        "shop": {"state": "FAILED", "error": "PositionGone: so", "lag_seconds": 12.34},
    },
    "merges": {
        "trade": {
            "state": "PAUSED",
            "error": "pause, requested by me",
            "shards": {"a": {"lag_seconds": 3.5}, "b": {"lag_seconds": None}},
        }
    },
    "logical_tables": {"state": "RUNNING", "error": None},
}


@pytest.fixture
def address() -> Iterator[str]:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            body = json.dumps(STATUS).encode()
            self.send_response(200)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            pass

    server = HTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"127.0.0.1:{server.server_port}"
    server.shutdown()
    server.server_close()


def listed(
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    *,
    leader: tuple[str, str] | None,
    desired: DesiredState = DesiredState.RUN,
    http: str = "127.0.0.1:0",
    fault: CoordinationLost | None = None,
    unit: str | None = None,
) -> tuple[int, dict[str, Any]]:
    """The exit code and what is shown of the one destination, in the journal as given.

    ``unit``: another unit of work, which is the only one then.
    """
    state = SimpleNamespace(
        cursor=Cursor(
            destination="shop", installation="i", epoch=7, seq=1, versions=0,
            offset=SourceOffset(server_uuid="u", coordinates=Coordinates("binlog.000001", 4)),
        ),
        control=Control(destination="shop", desired=desired),
        leader=leader
        and Leader(
            destination="shop", worker=leader[0], address=leader[1], process="p", epoch=7, ts_ms=1
        ),
    )  # fmt: skip
    bind, _, port = http.partition(":")
    settings = SimpleNamespace(
        destinations={} if unit else {"shop": None},
        worker=SimpleNamespace(id="a"),
        http=SimpleNamespace(bind=bind, port=int(port)),
    )

    async def latest_state() -> Any:
        return state

    async def views(*_: object) -> Any:
        return {}, fault

    monkeypatch.setattr(destination_commands, "load", lambda: settings)
    monkeypatch.setattr(destination_commands, "coordination_plan", lambda _: None)
    monkeypatch.setattr(destination_commands, "_views", views)
    journal = SimpleNamespace(of=lambda *_: SimpleNamespace(latest_state=latest_state))
    monkeypatch.setattr(destination_commands, "UnitJournal", journal)
    monkeypatch.setattr(destination_commands, "other_units", lambda _: [unit] if unit else [])
    code = destination_commands.run_list(
        cast(argparse.Namespace, SimpleNamespace(all=False, format="json"))
    )
    return code, json.loads(capsys.readouterr().out)[0]


def test_state_error_and_lag_are_the_leaders(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], address: str
) -> None:
    code, shown = listed(monkeypatch, capsys, leader=("a", address))
    assert code == 1
    assert (shown["state"], shown["error"], shown["lag_seconds"]) == (
        "FAILED",
        "PositionGone: so",
        12.34,
    )
    assert (shown["leader"], shown["epoch"], shown["position"]) == ("a", 7, "binlog.000001:4")


def test_a_worker_without_an_advertised_address_is_asked_at_its_own_settings(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], address: str
) -> None:
    assert listed(monkeypatch, capsys, leader=("a", ""), http=address)[1]["state"] == "FAILED"


@pytest.mark.parametrize(
    ("worker", "says"),
    [
        ("b", "is worker a, not b"),
        ("c", "worker c has no worker.advertised_address"),
        ("d", "worker d does not answer at 127.0.0.1:1"),
    ],
)
def test_who_does_not_answer_is_named_and_the_rest_is_shown(
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    address: str,
    worker: str,
    says: str,
) -> None:
    where = {"b": address, "c": "", "d": "127.0.0.1:1"}[worker]
    code, shown = listed(monkeypatch, capsys, leader=(worker, where))
    assert (code, shown["state"]) == (1, None)
    assert says in shown["error"]
    assert shown["position"] == "binlog.000001:4"


@pytest.mark.parametrize(
    ("desired", "state", "code"),
    [(DesiredState.STOP, "STOPPED", 0), (DesiredState.RUN, "NOT LED", 1)],
)
def test_one_that_nobody_leads_is_shown_so(
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    desired: DesiredState,
    state: str,
    code: int,
) -> None:
    found, shown = listed(monkeypatch, capsys, leader=None, desired=desired)
    assert (shown["state"], found) == (state, code)


@pytest.mark.parametrize("desired", [DesiredState.RUN, DesiredState.STOP])
def test_while_zookeeper_is_away_nothing_is_said_of_who_leads(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], desired: DesiredState
) -> None:
    fault = CoordinationLost("no session with z:2181 in 6 s")
    code, one = listed(monkeypatch, capsys, leader=None, desired=desired, fault=fault)
    assert code == 1
    assert (one["state"], one["error"]) == (None, "the leader is unknown: CoordinationLost")


@pytest.mark.parametrize(
    ("unit", "state", "lag"), [("merge.trade", "PAUSED", 3.5), ("logical.schemas", "RUNNING", None)]
)
def test_other_units_of_work_are_listed_as_destinations_are(
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    address: str,
    unit: str,
    state: str,
    lag: float | None,
) -> None:
    code, shown = listed(
        monkeypatch, capsys, leader=("a", address), desired=DesiredState.PAUSE, unit=unit
    )
    assert (code, shown["destination"], shown["wish"]) == (0, unit, "pause")
    assert (shown["state"], shown["lag_seconds"], shown["leader"]) == (state, lag, "a")
    # A merge that no worker leads is as bad as a destination.
    code, shown = listed(monkeypatch, capsys, leader=None, unit=unit)
    assert (code, shown["state"]) == (1, "NOT LED")
