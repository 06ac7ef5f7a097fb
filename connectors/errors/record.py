"""Single records: too large for their topic, not possible in its format, or of a row that cannot be decoded.

Invariant: the row is named by table, position and ChangeId, so that it can be found at the source.
"""

from __future__ import annotations

from connectors.errors.base import AqueductError, Retry


class RecordTooLarge(AqueductError):
    """A record is larger than its topic accepts."""

    remedy = (
        "Raise max.message.bytes of the topic (and message.max.bytes of the brokers) and "
        "topics.max_message_bytes in the settings; or set the destination's oversize to claim_check or "
        "key_only."
    )


class BatchTooLarge(AqueductError):
    """A batch of records is larger than its topic now accepts, though no single record is."""

    retry = Retry.TIMED
    remedy = (
        "Aqueduct starts again with batches that fit; raise max.message.bytes of the topic for fewer and "
        "larger ones."
    )


class RecordNotEncodable(AqueductError):
    """A record could not be written in the format of its topic."""

    remedy = (
        "Nothing from its transaction on was published. Report it with these coordinates. To continue, exclude "
        "the table by the filter, or give it another format and another topic in the mapping, and restart the "
        "worker; or continue without its transaction: `python -m app cursor skip DEST --gtid GTID --why "
        "REASON` (without GTIDs --file and --pos), and reload the table."
    )


class RecordForeign(AqueductError):
    """A record was not written by Aqueduct, in a topic that nothing else may write to."""

    remedy = (
        "Nothing was skipped. Find out which program writes to the topic, and stop it. Then restore the topic "
        "from a copy without that record; or name new topics in the mapping."
    )


class DeadLetterLimitReached(AqueductError):
    """More rows could not be decoded than the settings allow in an hour."""

    remedy = (
        "Nothing from that position on was published. `python -m app dead-letters list DEST` shows the "
        "reasons. To allow as many again: `python -m app destination restart DEST`; to allow more, raise the "
        "destination's poison_limit."
    )
