"""The witness of an audit, as the arguments name it."""

from __future__ import annotations

import argparse
from pathlib import Path

import pytest

from app.operator.commands import audit
from app.operator.operations.audit import (
    ByMysqlbinlog,
    ByMysqlReplication,
    GivenBinlogs,
    WitnessChoice,
)
from connectors.errors import UsageError


def options(*words: str) -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    audit.configure(parser)
    return parser.parse_args(["shop", *words])


@pytest.mark.parametrize(
    ("words", "choice"),
    [
        ((), None),
        (("--witness", "mysql-replication"), ByMysqlReplication()),
        (("--witness", "mysqlbinlog"), ByMysqlbinlog()),
        (("--mysqlbinlog", "other -v"), ByMysqlbinlog(command="other -v")),
        (
            ("--server", "u", "--binlogs", "a", "b"),
            ByMysqlbinlog(binlogs=GivenBinlogs(paths=(Path("a"), Path("b")), server_uuid="u")),
        ),
    ],
)
def test_the_witness_is_the_one_that_is_named(
    words: tuple[str, ...], choice: WitnessChoice
) -> None:
    assert audit.witness_choice(options(*words)) == choice


@pytest.mark.parametrize("more", [("--binlogs", "x"), ("--mysqlbinlog", "x")])
def test_the_second_witness_takes_no_files_and_no_program(more: tuple[str, str]) -> None:
    with pytest.raises(UsageError, match="mysql-replication reads the server itself"):
        audit.witness_choice(options("--witness", "mysql-replication", *more))


def test_files_are_taken_only_with_their_server() -> None:
    with pytest.raises(UsageError, match="--binlogs needs --server UUID"):
        audit.witness_choice(options("--binlogs", "x"))
