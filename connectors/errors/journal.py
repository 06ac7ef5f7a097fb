"""The journal: damaged, outdated, unreadable, or of another installation."""

from __future__ import annotations

from connectors.errors.base import AqueductError


class JournalDamaged(AqueductError):
    """The journal is inconsistent."""

    remedy = "Do not delete it: it holds the cursors. Restore it from a backup of the topic."


class JournalUnreadable(JournalDamaged):
    """A record of the journal cannot be read."""

    remedy = (
        "Another program wrote it, or it was changed by hand: find out who writes to the topic. To write the "
        "previous record of its key again: python -m app journal repair DEST --why TEXT. Then: "
        "python -m app destination restart DEST; a merge and logical.schemas continue by themselves. If the "
        "key begins with history, baseline, resolved or checkpoint, there is another way: set snapshot.mode to "
        "recovery and restart the worker, so that the schema history begins again at the cursor."
    )


class JournalOutdated(AqueductError):
    """The journal's cursor is older than what was published."""

    remedy = (
        "The journal is an older copy, or has lost its newest records; continuing would publish changes again "
        "under numbers that were used. Restore a newer copy of the topic; or find on the source where that "
        "transaction ends, and set the cursor there, which keeps all numbers: "
        "python -m app cursor set DEST --gtid SET --why TEXT (or --file FILE --pos N)."
    )


class JournalTooNew(AqueductError):
    """The journal was written by a newer version of Aqueduct."""

    remedy = (
        "Run that version, or a later one, on all workers and for all commands. If none ever ran, another "
        "program wrote the record; to write the previous one of its key again: python -m app journal repair "
        "DEST --why TEXT."
    )


class ForeignInstallation(AqueductError):
    """The journal's cursor belongs to another installation."""

    remedy = (
        "If two installations share the topic, or it was copied from another one's: give each a prefix of its "
        "own, with which a destination begins as its start says. If there was only one, the journal lost its "
        "first records: restore it from a backup of the topic."
    )


class StateUnknown(AqueductError):
    """The journal has no record of the destination."""

    remedy = "It has one once a worker has led the destination; check the prefix in the settings."
