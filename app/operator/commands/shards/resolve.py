"""`python -m app shards resolve`: decide on the differences of a logical table's shards.

Invariant: it succeeds only after a worker's report that the decision is in force.
"""

from __future__ import annotations

import argparse

from app.operator.arguments import add_format
from app.operator.commands.shards.show import add_logical_table
from app.operator.event_loop import run_operation
from app.operator.operations.shards.resolve import WantedDecision, resolve
from app.operator.output import print_answer
from app.operator.request import add_timeout, done_text
from app.operator.terminal import operator
from app.settings.model import load
from tables.history.logical_schemas.decisions import Verb


def configure(parser: argparse.ArgumentParser) -> None:
    """Take a table, a decision, and its reason."""
    parser.epilog = "Whatever is decided, each row is published with the columns of its own shard."
    add_logical_table(parser)
    verb = parser.add_mutually_exclusive_group(required=True)
    verb.add_argument(
        "--exclude", metavar="REAL",
        help="do not count this shard: database.table, or destination:database.table",
    )  # fmt: skip
    verb.add_argument("--include", metavar="REAL", help="count an excluded shard again")
    verb.add_argument("--accept", action="store_true", help="let the shards differ as they do now")
    verb.add_argument(
        "--take-type", metavar="COLUMN=TYPE", type=_column_type,
        help="take a type for a column whose types cannot be joined",
    )  # fmt: skip
    verb.add_argument(
        "--reopen", action="store_true", help="no longer accept differences, nor take types"
    )
    parser.add_argument("--why", required=True, metavar="TEXT", help="the reason, for the record")
    add_timeout(parser)
    add_format(parser)


def run(options: argparse.Namespace) -> int:
    """Send it; 0 once it is in force, 1 if a worker refused it. Raises NotApplied if no worker answered."""
    outcome = run_operation(resolve(load(), _wanted(options), by=operator(), wait=options.timeout))
    decided, name = outcome.decided, ".".join(options.table)
    if decided.refused:
        text = f"refused by worker {decided.worker}: {decided.refused}"
    else:
        text = f"{decided.state}{done_text(decided.worker, outcome.seconds)}"
    value = {
        "table": name,
        "decision": decided.id,
        "state": decided.state or None,
        "refused": decided.refused or None,
        "worker": decided.worker,
        "seconds": round(outcome.seconds, 3),
    }
    print_answer(options.format, value, [f"{name}: {text}"])
    return 1 if decided.refused else 0


def _wanted(options: argparse.Namespace) -> WantedDecision:
    column, type_text = options.take_type or ("", "")
    verbs = {
        Verb.EXCLUDE: options.exclude,
        Verb.INCLUDE: options.include,
        Verb.ACCEPT: options.accept,
        Verb.TAKE_TYPE: column,
        Verb.REOPEN: options.reopen,
    }
    ((verb, given),) = ((one, given) for one, given in verbs.items() if given)
    name = given if isinstance(given, str) else ""
    return WantedDecision(
        table=options.table, verb=verb, name=name, value=type_text, why=options.why
    )


def _column_type(text: str) -> tuple[str, str]:
    column, equals, type_text = text.partition("=")
    if not (equals and column and type_text.strip()):
        raise argparse.ArgumentTypeError(f"{text!r} is not COLUMN=TYPE, such as amount=varchar(80)")
    return column, type_text.strip()
