"""The table of brokers' error codes, compared with Kafka's own, as printed by its client."""

from __future__ import annotations

import re
import subprocess
from dataclasses import dataclass

import pytest
from aiokafka.errors import for_code

from connectors.errors import Retry
from connectors.kafka.error_mapping import ANSWERS
from devstack import Stack

_PROGRAM = "org.apache.kafka.common.protocol.Errors"
_ROW = re.compile(r"<tr><td>(\w+)</td><td>(-?\d+)</td><td>(True|False)</td>")
_NONE = 0


@dataclass(frozen=True, slots=True)
class Theirs:
    """Kafka's own entry for a code."""

    name: str
    is_retriable: bool


@pytest.fixture(scope="module")
def theirs(stack: Stack) -> dict[int, Theirs]:
    java, jars = stack._java("kafka")
    printed = subprocess.run(
        [java, "-cp", f"{jars}/*", _PROGRAM], capture_output=True, text=True, check=True
    )
    rows = _ROW.findall(printed.stdout)
    # A row of another shape would silently not be compared.
    assert len(rows) == printed.stdout.count("<tr><td>") > 100
    return {int(code): Theirs(name, retriable == "True") for name, code, retriable in rows}


def test_every_code_of_the_broker_is_in_the_table_under_its_name(
    theirs: dict[int, Theirs],
) -> None:
    names = {code: one.name for code, one in theirs.items() if code != _NONE}
    assert {code: name for code, (name, _) in ANSWERS.items()} == names


def test_what_kafkas_own_client_sends_again_is_retried(theirs: dict[int, Theirs]) -> None:
    final = {code for code, (_, kind) in ANSWERS.items() if kind.error.retry is not Retry.TIMED}
    assert not {theirs[code].name for code in final if theirs[code].is_retriable}


def test_no_batch_is_sent_again_after_an_answer_that_kafka_calls_final(
    theirs: dict[int, Theirs],
) -> None:
    again = {code for code in ANSWERS if getattr(for_code(code), "retriable", False)}
    assert again
    assert not {theirs[code].name for code in again if not theirs[code].is_retriable}
