"""The worker itself: its reader, its decoders, and runs that end on purpose."""

from __future__ import annotations

from connectors.errors.base import AqueductError, Retry


class RunRestarts(AqueductError):
    """The run ended so that the next one starts from something else."""

    # No remedy: it is never shown; the next run begins by itself.
    retry = Retry.TIMED
    remedy = "No action is needed."


class DecoderStalled(AqueductError):
    """A decoder process has work and makes no progress."""

    retry = Retry.TIMED
    remedy = (
        "Aqueduct ends it, starts new ones and reads again from its cursor. It was stopped by a signal, or the "
        "system swaps: give it more memory, or run fewer decoders."
    )


class ReaderStalled(AqueductError):
    """The thread that reads the binlog is stuck in one statement."""

    retry = Retry.TIMED
    remedy = (
        "Aqueduct reads again from its cursor; after the third time at one position it waits for an operator. "
        "Report it with the statement. To continue after it, with the tables' definitions as they are then: "
        "`python -m app cursor set DEST --latest --why REASON` (or --gtid SET), and reload the tables."
    )


class DecoderLost(AqueductError):
    """A decoder process ended before its work was done."""

    retry = Retry.TIMED
    remedy = (
        "Aqueduct starts new ones and reads again from its cursor. If it was killed, the system may lack "
        "memory: see its log, give it more, or run fewer decoders."
    )
