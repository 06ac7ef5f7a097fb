"""The exit code and the rounds of a validation, and its arguments."""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
from typing import Any

import pytest

from app.operator import validate
from app.operator.validate import Validation
from app.operator.validation.table_result import TableResult
from connectors.errors import UsageError
from connectors.mysql.select.load_limits import LoadLimits
from wire.validation import Kind


def options(*words: str) -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    validate.configure_validate(parser)
    return parser.parse_args(["shop", *words])


class Operation:
    """A validation that finds what it is given, one round after the other, and is interrupted after them."""

    def __init__(self, *rounds: TableResult) -> None:
        self._rounds = list(rounds)
        self.requests: list[dict[str, Any]] = []

    async def __call__(
        self, _: Any, destination: str, *, progress: Any, **wanted: Any
    ) -> Validation:
        reported = ("unreachable", "busy")
        plain = {name: one for name, one in wanted.items() if name not in reported}
        self.requests.append({"destination": destination, **plain})
        if not self._rounds:
            raise asyncio.CancelledError
        found = self._rounds.pop(0)
        progress(found)
        return Validation(destination="shop", tables=(found,))


def run(
    monkeypatch: pytest.MonkeyPatch, operation: Operation, *words: str
) -> tuple[int | None, dict[str, Any]]:
    monkeypatch.setattr(validate, "validate", operation)
    monkeypatch.setattr(validate, "load", lambda: None)
    code = None
    with contextlib.suppress(asyncio.CancelledError):
        code = validate.run_validate(options(*words))
    return code, operation.requests[0]


def equal() -> TableResult:
    return TableResult(name=("shop", "t"), rows=3)


def different() -> TableResult:
    found = equal()
    found.add(Kind.MISSING, b'{"id":7}')
    return found


@pytest.mark.parametrize(
    ("found", "code"),
    [
        (equal(), 0),
        (different(), 1),
        (TableResult(name=("shop", "t"), not_compared="it is quarantined"), 3),
    ],
)
def test_the_exit_code_is_that_of_an_audit(
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    found: TableResult,
    code: int,
) -> None:
    assert run(monkeypatch, Operation(found))[0] == code
    assert capsys.readouterr().out.splitlines()[:-1] == found.lines()


def test_rounds_follow_until_it_is_interrupted(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    operation = Operation(equal(), different(), equal())
    words = ("--watch", "0", "--format", "json")
    assert run(monkeypatch, operation, *words)[0] is None
    assert len(operation.requests) == 4
    decoder, out, found = json.JSONDecoder(), capsys.readouterr().out, []
    while out.strip():
        value, end = decoder.raw_decode(out.lstrip())
        found.append(value["differences"])
        out = out.lstrip()[end:]
    assert found == [0, 1, 0]


def test_its_arguments_are_those_of_the_request(monkeypatch: pytest.MonkeyPatch) -> None:
    words = ("a.b", "`c.d`.`e`", "--sample", "4", "--rows-per-second", "9", "--limit", "0")
    _, request = run(monkeypatch, Operation(equal()), *words, "--threads-running", "7")
    assert request == {
        "destination": "shop",
        "tables": [("a", "b"), ("c.d", "e")],
        "samples": 4,
        "limits": LoadLimits(rows_per_second=9, threads_running=7),
        "most_listed": 0,
    }


def test_a_wait_for_the_source_is_reported_once(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    class Waiting(Operation):
        async def __call__(self, *given: Any, **wanted: Any) -> Validation:
            for reason in ("60 threads", "55 threads", None, "52 threads", None):
                wanted["busy"](reason)
            return await super().__call__(*given, **wanted)

    run(monkeypatch, Waiting(equal()))
    assert capsys.readouterr().err.splitlines() == [
        "reading waits: 60 threads", "reading waits: 52 threads",
    ]  # fmt: skip


@pytest.mark.parametrize("words", [("--sample", "0"), ("--rows-per-second", "-1"), ("nodot",)])
def test_unusable_arguments_are_refused(words: tuple[str, ...]) -> None:
    with pytest.raises(SystemExit):
        options(*words)


def test_a_negative_pause_is_refused() -> None:
    with pytest.raises(UsageError, match="--watch"):
        validate.run_validate(options("--watch", "-1"))
