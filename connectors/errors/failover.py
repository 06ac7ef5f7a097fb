"""Why a destination cannot go on at another of its sources.

The law: a source is passed over or refused by name, with what it lacks; nobody goes on at one where it is not
proven that nothing is lost or repeated.
"""

from __future__ import annotations

from connectors.errors.base import AqueductError, Retry


class SourceSilent(AqueductError):
    """The source does not answer the heartbeat."""

    retry = Retry.TIMED
    remedy = "Aqueduct goes on at the next source that is fit; check this one and the network."


class StandbyLags(AqueductError):
    """The source does not have yet all that was published."""

    retry = Retry.TIMED
    remedy = (
        "Aqueduct waits until it has: see SHOW REPLICA STATUS there. "
        "If it can never have it, its replication is to be ended, and then it is refused."
    )


class NoSourceFits(AqueductError):
    """None of the sources can be gone on with now."""

    retry = Retry.TIMED
    remedy = "Aqueduct asks all of them again by itself; mend what is said above of each."


class LostInReplication(AqueductError):
    """The source lacks transactions that were published from another one, and has later ones."""

    remedy = (
        "Find them in the other source's binlog at those places; repair the replica, or the warehouse. "
        "failover.lost_in_replication: report goes on without them."
    )


class NoAlignment(AqueductError):
    """The last published transactions are not found in the source as one run."""

    remedy = (
        "Without GTIDs nothing else tells where to go on. Raise failover.fallback_seconds if that was too "
        "little, turn on GTIDs, or choose a new start and reload the tables."
    )


class StandbyFiltered(AqueductError):
    """The source replicates with a filter, so it may lack rows of captured tables."""

    remedy = (
        "Take another source, or remove the filter and rebuild the replica. If the filter leaves out no "
        "captured table, add replication_filters to the destination's `accept` in the settings."
    )
