"""Coordination: ZooKeeper, other workers, and requests that workers apply."""

from __future__ import annotations

from connectors.errors.base import AqueductError, Retry


class CoordinationLost(AqueductError):
    """ZooKeeper does not answer, or the session has expired."""

    retry = Retry.TIMED
    remedy = (
        "This worker leads no destination until it has a session again, for which it retries by itself; "
        "check the ZooKeeper servers and the network."
    )


class CoordinationRefused(AqueductError):
    """ZooKeeper refused this worker."""

    retry = Retry.TIMED
    remedy = (
        "Check zookeeper.username and the password in the settings, and the ACLs of the nodes below "
        "zookeeper.root; Aqueduct retries by itself."
    )


class NodeUnfit(AqueductError):
    """A node in ZooKeeper was not written by a worker."""

    retry = Retry.TIMED
    remedy = "It was created or changed by hand. Delete it; a worker then takes over by itself."


class WorkerIdTaken(AqueductError):
    """Another worker has this worker's id."""

    retry = Retry.TIMED
    remedy = (
        "Give each worker a worker.id of its own. After a crash this is the previous session, which "
        "expires after zookeeper.session_timeout_seconds."
    )


class AnotherWorkerLeads(AqueductError):
    """Another running worker leads the destination, and the two are not coordinated."""

    retry = Retry.TIMED
    remedy = (
        "Stop one of the two, or configure ZooKeeper for both. Meanwhile this worker publishes nothing of the "
        "destination; it takes over by itself once the other is gone."
    )


class NotApplied(AqueductError):
    """No worker has applied the request."""

    remedy = (
        "It stays in the journal, and the next leader of the destination applies it. Start a worker, or see in "
        "/status of the workers why none leads it; `python -m app destination list` shows them."
    )


class RequestReplaced(AqueductError):
    """Another request has replaced this one before any worker applied it."""

    remedy = "Ask the person who made it; `python -m app destination list` shows the desired state."


class LeadershipLost(AqueductError):
    """This worker no longer leads the destination."""

    retry = Retry.TIMED
    remedy = "The new leader continues from the journal; nothing is lost or repeated."
