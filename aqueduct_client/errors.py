"""Every reason for which a subscriber stops, with what to do.

Invariant: a class's docstring is its message, and ``remedy`` states what to do. The location of the error
(group, topic, partition, offset, batch) is given when it is raised.
"""

from __future__ import annotations

from typing import ClassVar


class SubscriberError(Exception):
    """The subscriber stopped."""

    # No remedy: it is the base class of all errors, and never raised itself.
    remedy: ClassVar[str] = ""

    def __init__(self, detail: str = "", /, **where: object) -> None:
        self.detail = detail
        self.where = {name: value for name, value in where.items() if value is not None}
        super().__init__(detail)

    def __str__(self) -> str:
        text = (type(self).__doc__ or "").strip().splitlines()[0].rstrip(".")
        if self.detail:
            text += f": {self.detail}"
        if self.where:
            text += f" [{', '.join(f'{name}={value}' for name, value in self.where.items())}]"
        return f"{text.rstrip('.')}. {self.remedy}".strip()


class InvalidSubscription(SubscriberError):
    """The arguments of the subscription are not usable."""


class BrokersLost(SubscriberError):
    """Kafka does not answer."""

    remedy = (
        "The subscriber retries with growing pauses, up to its connect_timeout if it has one. Check the "
        "addresses in brokers, and the brokers."
    )


class BrokersDenied(SubscriberError):
    """Kafka denied the account a login or an operation."""

    remedy = (
        "Check the user, the password and the ACLs: a subscriber needs READ on its topics, its group, "
        "<prefix>.__schemas and <prefix>.__logical_schemas, and READ and WRITE on <prefix>.__subscribers, "
        "which it creates if it may; else create that topic as docs/subscriber.md shows. Then start it again."
    )


class BrokersRefused(SubscriberError):
    """Kafka refused a request or a record."""

    remedy = "Repeating it changes nothing: correct what the answer names."


class SubscriberClosed(SubscriberError):
    """The subscriber was closed."""

    remedy = "Nothing in flight was acknowledged. Make a new subscriber to continue."


class StaleBatch(SubscriberError):
    """The batch is no longer this client's to acknowledge."""

    remedy = (
        "Nothing was acknowledged, and its records are delivered again, here or by another client of the "
        "group. Undo its effects or deduplicate; then call get_without_ack again."
    )


class OutOfOrder(SubscriberError):
    """An earlier batch is not acknowledged yet."""

    remedy = "Acknowledge batches in the order in which they were delivered, or roll back."


class UnknownBatch(SubscriberError):
    """No such batch is waiting to be acknowledged."""

    remedy = "A batch is acknowledged or rolled back once, with the id that it was delivered with."


class BatchesInFlight(SubscriberError):
    """Batches of get_without_ack are not acknowledged yet."""

    remedy = (
        "get acknowledges at once, which would acknowledge them too: ack or roll back those batches first, "
        "or use get_without_ack throughout."
    )


class RecordsGone(SubscriberError):
    """Kafka no longer has the records at the group's position."""

    remedy = (
        "The topic's retention removed them, or the topic was made again with fewer. Load the table again from "
        "its source, then choose a position: python -m app subscriber set GROUP TABLE --earliest."
    )


class UnknownTable(SubscriberError):
    """The installation has no such table."""

    remedy = (
        "Names are compared exactly, with their case. For a table that is to come, add it to not_yet: it is "
        "read from its first record. For a topic of a mapping, give topics. Nothing was acknowledged."
    )


class TopicReplaced(SubscriberError):
    """The topic was deleted and made again since the group read it."""

    remedy = (
        "Where the group was says nothing of the new topic, and what it had not read of the old one is gone. "
        "Stop all clients of the group and choose: python -m app subscriber set GROUP TABLE --earliest."
    )


class StartUnknown(SubscriberError):
    """The start position cannot be found in the topic."""

    remedy = "Choose another position: a time, earliest, or latest."


class MalformedRecord(SubscriberError):
    """A record does not follow the wire contract."""

    remedy = (
        "Another program may have written to the topic. The record is not acknowledged. To pass it by, stop "
        "all clients of the group and run "
        "python -m app subscriber set GROUP TABLE --partition N --offset N."
    )


class ForeignFormat(MalformedRecord):
    """A record is in a format that this client does not read."""

    remedy = (
        "The mapping publishes its table in that format for other programs; read the topic with a consumer of "
        "that format, as docs/formats.md describes. For this client, remove format from the table's rule. "
        "The record is not acknowledged. To pass it by, stop all clients of the group and run "
        "python -m app subscriber set GROUP TABLE --partition N --offset N."
    )


class WireTooNew(MalformedRecord):
    """A record follows a newer version of the wire contract than this client knows."""

    remedy = "Update aqueduct_client. The record is not acknowledged."


class ImagesElsewhere(SubscriberError):
    """The row was too large for its topic and its images are not in the record."""

    remedy = (
        "Read claim_check of the record, fetch the location that it names, and pass the bytes to with_images. "
        "If the record has left_out instead, read the row from the source by its key."
    )


class SchemaUnknown(SubscriberError):
    """The schemas topic has no such table version."""

    remedy = "Check that prefix is the worker's, and that the topic <prefix>.__schemas is complete."


class ProgressMoved(SubscriberError):
    """Another client of the subscriber has stored a position meanwhile."""

    remedy = (
        "Roll back the database transaction and the batch. The group has rebalanced; the next batch has what "
        "is still to be applied."
    )


class NoTransaction(SubscriberError):
    """The database connection commits each statement by itself."""

    remedy = (
        "The position and the effects must be in one transaction. Turn autocommit off, or begin a transaction "
        "before new_of. Nothing was stored."
    )


class MissingLibrary(SubscriberError):
    """A library that this feature needs is not installed."""
