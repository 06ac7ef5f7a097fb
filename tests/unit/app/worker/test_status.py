"""A destination's log lines and status page."""

import logging

import orjson
import pytest

from app.worker.status import DestinationStatus, State
from connectors.mysql.gtid import GtidSet
from connectors.mysql.position import Coordinates, SourceOffset
from tables.state.cursor import Cursor

UUID = "3e11fa47-71ca-11e1-9e33-c80aa9429562"


def status(gtids: GtidSet | None) -> DestinationStatus:
    offset = SourceOffset(
        server_uuid=UUID, coordinates=Coordinates("b.000002", 1543), gtid_set=gtids
    )
    cursor = Cursor(
        destination="shop", installation="i", epoch=3, seq=20123, versions=0, offset=offset
    )
    return DestinationStatus(
        "shop", state=State.RUNNING, cursor=cursor, rows=7, lag_seconds=0.42, _since=(0.0, 7)
    )


def test_the_line_has_the_position_and_the_lag() -> None:
    line = status(None).line()
    assert line == "shop: RUNNING at b.000002:1543, seq 20123, lag 0.4 s, 0 rows/s"


def test_the_line_of_a_destination_that_failed_ends_in_the_reason() -> None:
    failed = DestinationStatus("shop", state=State.FAILED, error="SourceLost: gone")
    assert failed.line() == (
        "shop: FAILED at no cursor yet, seq 0, lag -, 0 rows/s (SourceLost: gone)"
    )


def test_the_page_holds_the_cursor_as_text_that_mysql_reads() -> None:
    page = orjson.loads(orjson.dumps(status(GtidSet.parse(f"{UUID}:1-9")).to_json()))
    assert page["state"] == "RUNNING"
    assert page["cursor"] == {
        "gtid_set": f"{UUID}:1-9", "file": "b.000002", "pos": 1543, "seq": 20123, "epoch": 3,
    }  # fmt: skip
    assert (page["error"], page["rows"], page["lag_seconds"]) == (None, 7, 0.42)


def test_the_page_has_no_cursor_before_the_first_and_no_gtids_where_there_are_none() -> None:
    assert DestinationStatus("shop").to_json()["cursor"] is None
    assert status(None).to_json()["cursor"]["gtid_set"] is None


def test_looking_at_the_page_does_not_change_the_rate_that_the_log_measures() -> None:
    one = status(None)
    one.rows = 10**12  # however long this machine has been up
    assert one.measure_rate() > 0
    assert one.to_json() == one.to_json()
    assert one.to_json()["rows_per_second"] > 0


def test_an_error_that_retries_meet_again_is_news_once() -> None:
    status = DestinationStatus("shop")
    status.show(State.RETRYING, "KafkaLost: x")
    assert [status.is_news("KafkaLost") for _ in range(3)] == [True, False, False]
    assert status.is_news("SourceLost")
    status.show(State.RUNNING, None)
    status.show(State.RETRYING, "SourceLost: y")
    assert status.is_news("SourceLost")


def test_the_end_of_an_error_is_logged_with_its_length(caplog: pytest.LogCaptureFixture) -> None:
    status = DestinationStatus("shop")
    with caplog.at_level(logging.INFO):
        status.show(State.RUNNING, None)
        for state in (State.RETRYING, State.STARTING, State.RETRYING, State.STARTING):
            status.show(state, "KafkaLost: x" if state is State.RETRYING else None)
        status.show(State.RUNNING, None)
    assert [record.getMessage() for record in caplog.records] == ["shop: RUNNING again after 0 s"]
