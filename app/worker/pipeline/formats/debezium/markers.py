"""Transaction markers: the BEGIN and END records of the transactions topic."""

from __future__ import annotations

from collections.abc import Mapping

import orjson

from app.worker.pipeline.formats.protocol import Marker
from connectors.mysql.binlog.changes import Transaction
from wire.records import WIRE_VERSION


def begin_marker(transaction: Transaction, epoch: int) -> Marker:
    """Return the BEGIN record of a transaction."""
    return _marker(transaction, "BEGIN", epoch, "")


def end_marker(
    transaction: Transaction, epoch: int, counts: Mapping[str, int], part: int, *, last: bool
) -> Marker:
    """Return the END record of a transaction or of a part."""
    if len(counts) == 1:
        ((topic, total),) = counts.items()
        each = f'{{"topic":"{topic}","event_count":{total}}}'
    else:
        total = sum(counts.values())
        each = ",".join(
            f'{{"topic":"{topic}","event_count":{n}}}' for topic, n in sorted(counts.items())
        )
    more = (
        f',"event_count":{total},"data_collections":[{each}],'
        f'"part":{part},"last":{"true" if last else "false"}'
    )
    return _marker(transaction, "END", epoch, more)


def _marker(transaction: Transaction, status: str, epoch: int, more: str) -> Marker:
    name = orjson.dumps(transaction.id).decode()
    value = (
        f'{{"status":"{status}","id":{name},"ts_ms":{transaction.committed_ms},'
        f'"epoch":{epoch},"wire":{WIRE_VERSION}{more}}}'
    )
    return f'{{"id":{name}}}'.encode(), value.encode()
