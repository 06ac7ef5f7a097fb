"""Made-up topics with one fault in them, to see that the checker sees it."""

from __future__ import annotations

from dataclasses import replace

from demo.checks import Record
from demo.topics import Contents, Layout
from demo.truth import Truth
from tests.crash.harness import Proof, prove

_LAYOUT = Layout("p", "shop")
_TOPIC = _LAYOUT.row_topic("orders")


def planted(fault: str) -> Proof:
    """The checker's findings on ten records with that fault; ``none`` for none."""
    told = Truth()
    for n in range(1, 11):
        told.add("orders", f"g:{n}#0", moved=False)
    records = [_record(n) for n in range(1, 11)]
    if fault == "lost":
        del records[4]
    elif fault == "repeated":
        records.append(replace(records[3], offset=11, seq=11))
    elif fault == "seq":
        records[-1] = replace(records[-1], seq=12)
    elif fault == "disordered":
        records[2] = replace(records[2], offset=4)
        records[3] = replace(records[3], offset=3)
    contents = Contents()
    contents.records[_TOPIC] = records
    return prove(_LAYOUT, told, contents)


def _record(n: int) -> Record:
    return Record(
        topic=_TOPIC, partition=0, offset=n, change_id=f"g:{n}#0", seq=n, epoch=1, committed_ms=0
    )
