"""Failover: why a destination cannot be read from another of its sources.

Invariant: a refused source is named, with what it lacks; no source is read where it is not proven that nothing
is lost or repeated.
"""

from __future__ import annotations

from connectors.errors.base import AqueductError, Retry


class SourceSilent(AqueductError):
    """The source does not answer the heartbeat."""

    retry = Retry.TIMED
    remedy = "Aqueduct fails over to the next fit source; check this one and the network."


class StandbyLags(AqueductError):
    """The source does not yet have all that was published."""

    retry = Retry.TIMED
    remedy = (
        "Aqueduct waits until it has: see SHOW REPLICA STATUS there. "
        "If it can never catch up, stop its replication; it is then refused."
    )


class NoSourceFits(AqueductError):
    """No source can be resumed from now."""

    retry = Retry.TIMED
    remedy = "Aqueduct checks all of them again by itself; correct what is stated above for each."


class LostInReplication(AqueductError):
    """The source lacks transactions that were published from another one, and has later ones."""

    remedy = (
        "Find them in the other source's binlog at those positions; repair the replica, or the warehouse. "
        "With failover.lost_in_replication: report Aqueduct continues without them."
    )


class NoAlignment(AqueductError):
    """The last published transactions are not found in the source in one sequence."""

    remedy = (
        "Without GTIDs the position cannot be found otherwise: point the destination to the server that was "
        "read; raise failover.fallback_seconds if it was too short. To resume from the end of this one: "
        "`python -m app cursor set DEST --latest --why REASON`, and reload the tables. For the next time, turn "
        "on GTIDs, or set failover.fingerprints to on."
    )


class StandbyFiltered(AqueductError):
    """The source replicates with a filter, so it may lack rows of captured tables."""

    remedy = (
        "Use another source, or remove the filter and rebuild the replica. If the filter leaves out no "
        "captured table, add replication_filters to the destination's `accept` in the settings."
    )
