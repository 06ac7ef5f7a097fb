"""Subscriptions: from the names of logical tables to a subscriber with real brokers."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from aqueduct_client.errors import InvalidSubscription
from aqueduct_client.kafka import KafkaGroup, kafka_append, kafka_log
from aqueduct_client.notes import Notes
from aqueduct_client.record_selection import Selection, Window
from aqueduct_client.schemas import Schemas
from aqueduct_client.start_positions import Earliest, Start
from aqueduct_client.subscriber import Outage, Subscriber, Turn
from aqueduct_client.sync import SyncSubscriber
from aqueduct_client.table_topics import topic_of, topics_of
from wire.topics import subscribers_topic


@dataclass(frozen=True, slots=True, kw_only=True)
class Subscription:
    """What to read, as whom, and from where."""

    tables: tuple[str, ...]
    """``database.table``, as subscribers name them."""
    group: str
    """Clients with the same name share the partitions, and the group's offsets."""
    brokers: str
    client: str | None = None
    """A name that this client keeps: after a restart it takes its partitions back at once, without a wait for
    the end of its session."""
    prefix: str = "aq"
    topics: Mapping[str, str] | None = None
    """The topics of logical tables or databases whose topic is not ``<prefix>.<database>.<table>``."""
    tags: frozenset[str] = frozenset()
    tag_topic: str | None = None
    """A tag that the mapping's ``tag_topics`` names: its own topic is read, which has only its records."""
    not_yet: frozenset[str] = frozenset()
    """Tables that need not exist yet; any other name that no table has is refused."""
    start: Start = field(default_factory=Earliest)
    """Where the group begins a table; partitions and topics that come later are read whole."""
    dedup_window: int = 0
    """How many acknowledged changes are remembered, so that they are not delivered again."""
    connect_timeout: float | None = 60.0
    session_seconds: float = 10.0
    handling_seconds: float = 300.0
    kafka: Mapping[str, Any] | None = None
    """More arguments of aiokafka's clients, such as ``security_protocol`` and the account."""
    turn: Turn | None = None

    @property
    def wanted(self) -> dict[str, frozenset[str] | None]:
        """Each topic to read, with the logical tables wanted of it; None: all that it has.

        Raise InvalidSubscription.
        """
        return topics_of(self.tables, prefix=self.prefix, mapped=self.topics, tag=self.tag_topic)

    def _names(self) -> dict[str, frozenset[str]]:
        """Each topic, with the tables that were named."""
        found: dict[str, set[str]] = {}
        for table in self.tables:
            topic, _ = topic_of(table, prefix=self.prefix, mapped=self.topics, tag=self.tag_topic)
            found.setdefault(topic, set()).add(table)
        return {topic: frozenset(names) for topic, names in found.items()}

    def subscriber(self) -> Subscriber:
        """Return a new member of the group."""
        wanted = self.wanted
        options = {"bootstrap_servers": self.brokers, **(self.kafka or {})}
        outage = Outage(self.connect_timeout)
        logs = partial(kafka_log, options, outage.answer_limit)
        return Subscriber(
            joins=KafkaGroup(
                options=options,
                group=self.group,
                topics=frozenset(wanted),
                client=self.client,
                session_seconds=self.session_seconds,
                handling_seconds=self.handling_seconds,
                answer_limit=outage.answer_limit,
            ),
            logs=logs,
            selection=Selection(
                tables=wanted, tags=self.tags, names=self._names(), not_yet=self.not_yet
            ),
            start=self.start,
            window=Window(self.dedup_window),
            outage=outage,
            schemas=Schemas(logs, self.prefix),
            notes=Notes(
                logs=logs,
                appends=partial(kafka_append, options, answer_limit=outage.answer_limit),
                topic=subscribers_topic(self.prefix),
                group=self.group,
            ),
            turn=self.turn,
        )


def subscribe(
    *tables: str, group: str, brokers: str, tags: Iterable[str] = (), **more: Any
) -> SyncSubscriber:
    """Subscribe to logical tables: ``with subscribe("trade.orders", group=…, brokers=…) as subscriber``.

    ``more``: any other field of Subscription.
    """
    return SyncSubscriber(_subscription(tables, group, brokers, tags, more).subscriber)


def subscribe_async(
    *tables: str, group: str, brokers: str, tags: Iterable[str] = (), **more: Any
) -> Subscriber:
    """Subscribe as ``subscribe`` does, for an event loop: ``async with subscribe_async(…) as subscriber``."""
    return _subscription(tables, group, brokers, tags, more).subscriber()


def _subscription(
    tables: tuple[str, ...], group: str, brokers: str, tags: Iterable[str], more: dict[str, Any]
) -> Subscription:
    if "@" in brokers:
        raise InvalidSubscription(
            "an address in brokers is without user and password, since messages have it: give them in kafka"
        )
    not_yet = more.pop("not_yet", ())
    for name, given in (("tags", tags), ("not_yet", not_yet)):
        if isinstance(given, str):
            raise InvalidSubscription(f"{name} is the text {given!r}; give a list")
    if others := sorted(set(not_yet) - set(tables)):
        raise InvalidSubscription(f"not_yet names {', '.join(others)}, which is not subscribed to")
    try:
        found = Subscription(
            tables=tables,
            group=group,
            brokers=brokers,
            tags=frozenset(tags),
            not_yet=frozenset(not_yet),
            **more,
        )
    except TypeError as error:
        raise InvalidSubscription(str(error)) from None
    found.wanted  # noqa: B018 - a fault of the tables is an error here
    return found
