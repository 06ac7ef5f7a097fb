"""Preflight checks of a MariaDB: faults that would cause loss, and the statement that fixes each.

Invariant: as in ``connectors.mysql.server.preflight``. MariaDB has no SET PERSIST: a setting
changed at run time must be written to its configuration too.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from connectors.mysql.server.remedies import setting

OLDEST = (10, 5)
"""The first version that can write columns' names, labels and keys into its binlog."""

_WANTED = {
    "binlog_format": ("ROW", "rows of other formats are not in the binlog"),
    "binlog_row_image": ("FULL", "a change would not hold all of its row"),
}
_NAMES = {
    "binlog_row_metadata": (
        "FULL", "the binlog would not name columns, labels and keys, and no schema history is kept that does",
    ),
}  # fmt: skip
_NEEDED = {
    "REPLICATION SLAVE": {"REPLICATION SLAVE", "REPLICATION REPLICA"},
    "BINLOG MONITOR": {"BINLOG MONITOR", "REPLICATION CLIENT"},
}
"""Privileges, each with the names that a server may use for it."""
_ANY = {"ALL PRIVILEGES", "SUPER"}


def version_fault(version: str, numbers: tuple[int, ...]) -> str | None:
    """The reason why this version cannot be captured, or None."""
    if numbers >= OLDEST:
        return None
    return f"it is version {version}; MariaDB {'.'.join(map(str, OLDEST))} or newer is needed"


def setting_faults(variables: Mapping[str, str], *, history: bool) -> Iterator[str]:
    """One line for each setting that would cause loss; ``history`` as in
    ``connectors.mysql.server.preflight``."""
    for name, (wanted, why) in (_WANTED if history else _WANTED | _NAMES).items():
        value = variables.get(name, "")
        if value.upper() != wanted:
            yield (
                f"{name} is {value or 'not known to it'}, {why}: {setting(name, wanted, persists=False)}; "
                "end the sessions that began before"
            )


def missing_grants(held: set[str]) -> list[str]:
    """The privileges that the account lacks, by the names to grant them by."""
    return [name for name, names in _NEEDED.items() if not held & (names | _ANY)]
