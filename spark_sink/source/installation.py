"""The row topics of this installation, by its schemas topic.

Names do not show to which installation a topic belongs: a mapping of the installation `aq` may name the topic
`aq.eu.shop.orders`, or an installation with the prefix `aq.eu` may write it. But a table version names its
topic, and is published before the first row that uses it, in the same Kafka transaction.

Invariant: a record with a table version is taken only from a topic that a version of this installation names. A
truncate of a table that never had a row published has no version; it is taken unless its topic begins with the
longer prefix of another installation.
"""

from __future__ import annotations

import json
import re
import threading
import time
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Final

from spark_sink.errors import ForeignTopic, KafkaUnreachable
from spark_sink.source.kafka import KafkaTopics
from spark_sink.source.own_topics import UNREADABLE
from spark_sink.text.quoting import literal
from wire.topics import installations, merged_topic, schemas_topic

_PAUSE: Final = 0.1
_SECONDS: Final = 90.0
"""Longer than a worker's transaction takes to end once the worker is killed, on slow brokers too."""
_NO_VERSION: Final = "reason IS NULL AND op = 't' AND version IS NULL"


@dataclass(slots=True, kw_only=True)
class Installation:
    """The topics that versions name; the versions are read again if a topic is unknown."""

    prefix: str
    read: Callable[[], Iterable[str]]
    """Returns the values of the schemas topic."""
    names: Callable[[], Collection[str]]
    """Returns the names of all topics in Kafka."""
    state: Callable[[], object] = object
    """Returns a value that changes with the schemas topic, once all records written to it are decided."""
    strange: Mapping[str, str] = field(default_factory=dict)
    """The topics with records that no version names, each with the prefix of the installation to which it may
    belong, or an empty text. The mapping is replaced and never changed, so a batch can keep it."""
    _named: frozenset[str] | None = None
    _state: object = None
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def judge(self, topics: Collection[str]) -> Mapping[str, str]:
        """Find the topics among these whose records are not all of this installation; return `strange`.

        Raise KafkaUnreachable.
        """
        with self._lock:
            unknown = set(topics) - (self._named or set())
            if unknown and (state := self.state()) != self._state:
                self._named, self._state = named(self.read(), self.prefix), state
                unknown -= self._named
            own = set(topics) - unknown
            found = {topic: other for topic, other in self.strange.items() if topic not in own}
            # If an earlier worker published versions, these name no topic, and no topic counts as strange.
            if unknown and self._named:
                others = installations(self.names()) - {self.prefix}
                for topic in unknown:
                    above = [other for other in others if topic.startswith(f"{other}.")]
                    found[topic] = max(above, key=len, default="")
            self.strange = found
            return found

    def names_topic(self, topic: str) -> bool:
        """Whether a table version, as last read, names a topic."""
        return topic in (self._named or ())

    def is_below(self, other: str) -> bool:
        """Whether the prefix of another installation begins with this installation's prefix."""
        return other.startswith(f"{self.prefix}.")

    def own_sql(self, strange: Mapping[str, str]) -> str:
        """Return the condition on `envelope.FIELDS` for records of this installation; empty if all are."""
        below = [topic for topic, other in strange.items() if self.is_below(other)]
        if not strange:
            return ""
        taken = f"coalesce({_NO_VERSION}, false)"
        if below:
            taken += f" AND topic NOT IN ({_texts(below)})"
        return f"(topic NOT IN ({_texts(strange)}) OR ({taken}))"

    def fault(self, topic: str, other: str) -> ForeignTopic:
        """Return why a strange topic is not read; `other` is the prefix of the installation that may own it."""
        theirs = f", and {other!r} is the prefix of another installation" if other else ""
        return ForeignTopic(
            f"topic {topic}: no table version in {schemas_topic(self.prefix)} names it{theirs}",
            advice=f"Add {re.escape(topic)} to exclude; if the topic is this installation's, restore its "
            f"records in {schemas_topic(self.prefix)}, then run reload --from-beginning for its tables",
        )


def installation_in(
    topics: KafkaTopics, prefix: str, read: Callable[[], Iterable[str]]
) -> Installation:
    """Return the installation of a prefix, as Kafka has it."""

    def names() -> Collection[str]:
        with topics.admin() as kafka:
            return kafka.topics()

    state = partial(schemas_state, topics, prefix)
    return Installation(prefix=prefix, read=read, names=names, state=state)


def schemas_state(topics: KafkaTopics, prefix: str) -> object:
    """Return the ends of the schemas topic, once all records written to it before are decided.

    Raise KafkaUnreachable if a transaction in it does not end.
    """
    # A transaction becomes visible partition by partition: a row may be seen before its version. And all
    # destinations write to one partition, where the open transaction of one hides later versions of the others.
    written, deadline = topics.schemas_end(is_decided=False), time.monotonic() + _SECONDS
    while True:
        ends = topics.schemas_end()
        if all(ends.get(at, 0) >= end for at, end in written.items()):
            return ends
        if time.monotonic() >= deadline:
            # Without the versions after the transaction, tables would wait for them, and topics of this
            # installation would count as another's.
            raise KafkaUnreachable(
                f"a transaction in {schemas_topic(prefix)} has not ended for {_SECONDS:.0f} s",
                advice="Check the brokers: they abort it once its timeout has passed",
            )
        time.sleep(_PAUSE)


def named(values: Iterable[str], prefix: str) -> frozenset[str]:
    """Return the topics that table versions name, or a merge of them writes; empty if a version names none."""
    found = set()
    for value in values:
        try:
            body = json.loads(value)
            found.add(merged_topic(prefix, str(body.get("destination")), body["topic"]))
        except UNREADABLE:
            return frozenset()
    return frozenset(found)


def tables_of(
    values: Iterable[str], topic: str, prefix: str
) -> dict[tuple[str, str], set[tuple[str, str] | None]]:
    """Return the source tables whose versions name a topic, each with the logical tables of its records there.

    None is among the logical tables if a version does not state its own, as versions of earlier workers do not.
    """
    found: dict[tuple[str, str], set[tuple[str, str] | None]] = {}
    for value in values:
        if topic in named([value], prefix):
            body = json.loads(value)
            match body.get("logical"):
                case [str(database), str(table)]:
                    logical: tuple[str, str] | None = (database, table)
                case _:
                    logical = None
            found.setdefault((body["database"], body["table"]), set()).add(logical)
    return found


def _texts(topics: Iterable[str]) -> str:
    return ", ".join(literal(topic) for topic in sorted(topics))
