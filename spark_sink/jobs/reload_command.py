"""`python -m spark_sink reload` and `rebuild`: the requests of a command, and the wait for the sink's answers.

Invariant: a request that is not answered in time stays in the log, and a sink carries it out later.
"""

from __future__ import annotations

import logging
import re
import time
import uuid
from argparse import Namespace
from collections.abc import Callable, Iterable
from dataclasses import fields
from typing import Final

from spark_sink.errors import BadSettings, OwnRows, ReloadRefused, table_error
from spark_sink.settings.model import Settings
from spark_sink.text.quoting import argument
from spark_sink.warehouse.protocol import Name
from spark_sink.warehouse.waiting_tables import Request, Waits, WaitState

_log = logging.getLogger(__name__)
_SECONDS = 1.0


def requests_of(options: Namespace, settings: Settings) -> list[Request]:
    """The requests of a command; raise BadSettings if its options exclude one another."""
    names = {one.name for one in fields(Request)}
    given = {name: value for name, value in vars(options).items() if name in names and value}
    if "topics" in given:
        given["topics"] = tuple(given["topics"])
    if "discard" in given and not given.keys() <= {"discard", "source", "lose_rows"}:
        raise BadSettings(
            "--discard removes the table, or with --source rows of it", advice="Add no other option"
        )
    if "source" in given and ("discard" not in given or len(options.tables) > 1):
        raise BadSettings(
            "--source names a source table, whose rows --discard removes from one table",
            advice="Add --discard, and name one table",
        )
    if "lose_rows" in given and "source" not in given:
        raise BadSettings("--yes-lose-rows confirms --discard --source", advice="Add them")
    return [
        Request(
            number=uuid.uuid4().hex, database=database, table=table, sink=settings.name, **given
        )
        for database, table in dict.fromkeys(options.tables)
    ]


def request_reloads(
    waits: Waits,
    requests: Iterable[Request],
    *,
    timeout: float,
    stopped: Callable[[float], bool],
) -> bool:
    """Request reloads and wait for the answers; return whether all answers came before a stop.

    Raise ReloadRefused if a sink refused some, once all are answered; or if `timeout` seconds pass before that.
    """
    unanswered: dict[Name, Request] = {one.name: one for one in requests}
    refused: dict[Name, ReloadRefused] = {}
    is_one = len(unanswered) == 1
    waits.ask(*unanswered.values())
    _log.info("reload requested table=%s; waiting for the sink", _listed(unanswered))
    deadline = time.monotonic() + timeout
    while not stopped(_SECONDS):
        for name, request in [*unanswered.items()] if waits.refresh() else []:
            answer = waits.tables.get(name)
            if answer is None or answer.answered != request.number:
                continue
            del unanswered[name]
            if not answer.error:
                _log.info("table reloaded table=%s", ".".join(name))
                continue
            refused[name] = ReloadRefused(f"{answer.error}: {answer.reason}", advice=answer.action)
            if is_one:
                raise refused[name]
            _log.error("table=%s: %s", ".".join(name), refused[name])
        if not unanswered and refused:
            raise ReloadRefused(_listed(refused), advice="The lines above have the reasons")
        if not unanswered:
            return True
        if time.monotonic() >= deadline:
            raise ReloadRefused(
                f"no sink has reloaded {_listed(unanswered)} within {timeout} s",
                advice="The request is kept: a running sink or the next start carries it out; see status",
            )
    return False


def _listed(names: Iterable[Name]) -> str:
    return ", ".join(map(".".join, names))


def repeated(advice: str, request: Request, held: WaitState) -> str:
    """Return the advice of a refused reload, with the options of the request in the reloads that it advises.

    A reload without these options may be refused for a reason that they have settled already. The option by
    which a reload does not begin with the table's own rows is repeated only if these rows cannot be used.
    """
    options = [
        "--skip-unusable" if request.skip_unusable else "",
        "--unknown-as-null" if request.unknown_as_null else "",
        f"--time-zone {request.time_zone}" if request.time_zone else "",
    ]
    if table_error(held.waits_for).own_rows is not OwnRows.KEPT:
        rows = "--from-beginning" if request.from_beginning else "--only-new"
        options.insert(0, rows if request.from_beginning or request.only_new else "")

    def completed(command: re.Match[str]) -> str:
        stated = command[2].split()
        begins = _BEGINNINGS.intersection(stated)
        more = [
            one
            for one in filter(None, options)
            if one.split()[0] not in stated and not (begins and one in _BEGINNINGS)
        ]
        return command[0] if "--discard" in stated else " ".join([command[0], *more])

    command = re.escape(f"python -m spark_sink reload {argument(request.name)}")
    return re.sub(
        rf"({command})((?: --topic [\w.-]*\w| --[a-z-]+)*)(?![\w-]|\.\w)", completed, advice
    )


_BEGINNINGS: Final = frozenset({"--from-beginning", "--only-new"})
