"""Kafka: its brokers, its topics, and other producers."""

from __future__ import annotations

from connectors.errors.base import AqueductError, Retry


class KafkaLost(AqueductError):
    """Kafka did not answer, or its answer was ambiguous."""

    retry = Retry.TIMED
    remedy = "Aqueduct starts again from the journal by itself; check the brokers."


class KafkaSlow(KafkaLost):
    """Kafka did not complete a transaction in time."""

    remedy = (
        "Aqueduct starts again from the journal with transactions of half the size; if this persists, check "
        "the brokers, their disks and the network."
    )


class TooFewBrokers(KafkaLost):
    """Too few brokers are alive for a topic's replication."""

    remedy = (
        "Aqueduct retries by itself: start the missing brokers. While other topics take records, only the "
        "tables of this one wait after topics.offline_seconds; of a merge, only this topic waits. A cluster "
        "that has no more brokers needs a smaller topics.replication_factor, and min.insync.replicas of its "
        "topics no greater than that."
    )


class KafkaDenied(AqueductError):
    """Kafka denied the account a login or an operation."""

    retry = Retry.TIMED
    remedy = (
        "Aqueduct retries by itself; check kafka.sasl_username and its password, and the ACLs that "
        "SECURITY.md lists. A changed setting takes effect at the worker's next start."
    )


class KafkaRefused(AqueductError):
    """Kafka refused a request."""

    remedy = (
        "Change the settings of the worker, the topic or the brokers as it says; where the "
        "destination has FAILED by it, then: `python -m app destination restart DEST`."
    )


class Fenced(AqueductError):
    """Another worker has taken over this destination."""

    remedy = (
        "This worker publishes nothing of it meanwhile, and leads again by itself, within seconds, once the "
        "other has ended: stop one of the two. If both were started on purpose, configure ZooKeeper for both."
    )


class GroupActive(AqueductError):
    """The group of subscribers has active clients."""

    remedy = (
        "Nothing was changed: they would continue where they are. Stop all clients of the group; one that was "
        "killed counts until its session is over, 10 s by default. Then repeat the command."
    )


class TopicPositionUnknown(AqueductError):
    """The position cannot be found in the topic."""

    remedy = "Nothing was changed. Choose another position: --time, --earliest or --latest."


class TransactionOpen(AqueductError):
    """Another producer's open transaction keeps a topic from being read to its end."""

    retry = Retry.TIMED
    remedy = (
        "Aqueduct retries by itself until that transaction ends. Find the program that writes to the topic; or "
        "abort the transaction: python -m app journal abort DEST --transactional-id ID."
    )


class TopicUnfit(AqueductError):
    """A topic would lose records or their order."""

    remedy = "Nothing was written. Change the topic or the settings as described above."


class RecordsGone(AqueductError):
    """Records that were not read yet are gone from their topic."""

    remedy = (
        "Nothing was skipped. Restore the topic from a copy; or accept the loss: accept: [records_gone] in the "
        "merge's settings, then restart the worker."
    )


class MergeUnfinished(AqueductError):
    """A merge that the settings no longer have did not merge all records of the destination."""

    retry = Retry.TIMED
    remedy = (
        "Nothing is published meanwhile, since the topic would lack those records, or have them after newer "
        "ones. Put the merge back into the settings of all workers and restart them; to end it, pause its "
        "destinations, wait until /status shows unread 0 and held 0 for each of them, and then remove it."
    )


class TopicGone(AqueductError):
    """A topic that was written to no longer exists."""

    remedy = (
        "Nothing was written. Restore it from a copy; or create it again, empty, with that command, in which "
        "case its readers never get what it held. Then: python -m app destination accept-topic DEST TOPIC "
        "--why REASON."
    )


class TopicReplaced(AqueductError):
    """A topic that was written to was deleted and made again."""

    remedy = (
        "What it held is gone, unless it was restored from a copy. Continue with it as it is: python -m app "
        "destination accept-topic DEST TOPIC --why REASON."
    )
