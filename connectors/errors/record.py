"""Why a single record cannot go out as it is: it is too large, or its row cannot be decoded.

The law: the row is named by its table, its place and its ChangeId, so that a person can find it at the source.
"""

from __future__ import annotations

from connectors.errors.base import AqueductError, Retry


class RecordTooLarge(AqueductError):
    """A record is larger than its topic takes."""

    remedy = (
        "Raise max.message.bytes of the topic (and message.max.bytes of the brokers) and "
        "topics.max_message_bytes in the settings; or set the destination's oversize to claim_check or "
        "key_only."
    )


class BatchTooLarge(AqueductError):
    """A batch of records is larger than its topic takes now, though each record is not."""

    retry = Retry.TIMED
    remedy = (
        "Aqueduct begins anew with batches that fit; raise max.message.bytes of the topic for fewer and larger "
        "ones."
    )


class PoisonLimitReached(AqueductError):
    """More rows cannot be decoded than the settings allow in an hour."""

    remedy = (
        "Nothing from there on was published. Look at `python -m app dead-letters list` for what is wrong with "
        "them; then raise the destination's poison_limit, or restart to allow as many again."
    )
