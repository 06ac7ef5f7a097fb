"""The witness of the source's binlog that an audit selects, and Kafka read in parallel."""

from __future__ import annotations

import sys
import threading
from pathlib import Path

import pytest

from app.audit.errors import ProgramMissing
from app.audit.topics.topics import KafkaTopics
from app.operator.operations.audit import (
    ByMysqlbinlog,
    ByMysqlReplication,
    mysqlbinlog_command,
    run_beside_kafka,
)
from tests.unit.app.audit.truth.test_mysqlbinlog import executable


@pytest.fixture(autouse=True)
def nothing_installed(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path / "path"))
    monkeypatch.setattr(sys, "executable", str(tmp_path / "venv/bin/python"))


@pytest.mark.remedy("ProgramMissing")
def test_the_witness_is_the_first_that_is_there(tmp_path: Path) -> None:
    assert mysqlbinlog_command(None) is None
    for wanted in (ByMysqlbinlog(), ByMysqlbinlog(command="other")):
        with pytest.raises(ProgramMissing):
            mysqlbinlog_command(wanted)
    found = executable(tmp_path / "path/mysqlbinlog")
    assert mysqlbinlog_command(None) == (found,)
    assert mysqlbinlog_command(ByMysqlReplication()) is None
    elsewhere = executable(tmp_path / "elsewhere/mysqlbinlog")
    assert mysqlbinlog_command(ByMysqlbinlog(command=elsewhere)) == (elsewhere,)


async def test_an_audit_blocks_in_a_thread_of_its_own_while_the_loop_reads_kafka(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    here = threading.current_thread()

    async def topics(_options: object) -> dict[str, int]:
        assert threading.current_thread() is here
        return {"t": 2}

    monkeypatch.setattr("app.audit.topics.topics.topics", topics)

    def work(kafka: KafkaTopics) -> tuple[dict[str, int], threading.Thread]:
        return dict(kafka.topics()), threading.current_thread()

    found, thread = await run_beside_kafka({}, work)
    assert found == {"t": 2}
    assert thread is not here
