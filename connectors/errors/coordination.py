"""Why a worker does not lead, as far as ZooKeeper and other workers have to do with it."""

from __future__ import annotations

from connectors.errors.base import AqueductError, Retry


class CoordinationLost(AqueductError):
    """ZooKeeper does not answer, or the session is over."""

    retry = Retry.TIMED
    remedy = (
        "This worker leads nothing until it has a session again, which it tries by itself; "
        "check the ZooKeeper servers and the network."
    )


class CoordinationRefused(AqueductError):
    """ZooKeeper refused this worker."""

    retry = Retry.TIMED
    remedy = (
        "Check zookeeper.username and the password in the settings, and the ACLs of the nodes below "
        "zookeeper.root; Aqueduct tries again by itself."
    )


class NodeUnfit(AqueductError):
    """A node in ZooKeeper is not as a worker makes it."""

    retry = Retry.TIMED
    remedy = "Somebody made or changed it by hand. Delete it; a worker takes over by itself then."


class WorkerIdTaken(AqueductError):
    """Another worker has this worker's id."""

    retry = Retry.TIMED
    remedy = (
        "Give each worker a worker.id of its own. After a crash it is the session before, and is over in "
        "zookeeper.session_timeout_seconds."
    )


class AnotherWorkerLeads(AqueductError):
    """Another worker that lives leads the destination, and nothing coordinates the two."""

    retry = Retry.TIMED
    remedy = (
        "Stop one of the two, or configure ZooKeeper for both. Meanwhile this worker publishes nothing of the "
        "destination; it leads it by itself once the other is gone."
    )


class NotApplied(AqueductError):
    """No worker has applied the request."""

    remedy = (
        "It stays in the journal, and whoever leads the destination applies it then. Start a worker, or see on "
        "/status of the workers why none leads it; `python -m app destination list` shows them."
    )


class RequestReplaced(AqueductError):
    """Another request has replaced this one before any worker applied it."""

    remedy = (
        "Agree with whoever made it; `python -m app destination list` shows what is wanted now."
    )


class LeadershipLost(AqueductError):
    """This worker no longer leads the destination."""

    retry = Retry.TIMED
    remedy = "Whoever leads now goes on from the journal; nothing is lost or repeated."
