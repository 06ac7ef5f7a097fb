"""Preflight checks of MySQL and MariaDB: faults that would cause loss, and the statement that fixes each.

Invariant: all faults are reported at once, each with its remedy; nothing is changed on the server.
MariaDB has no SET PERSIST: a setting changed at run time must be written to its configuration too.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping

from connectors.errors import Faults, PreflightError, ServerIdConflict
from connectors.mysql.server.connection import SourceAddress
from connectors.mysql.server.facts import REPORTED_HOST, Replica, ServerFacts
from connectors.mysql.server.privileges import (
    PERSISTS,
    account,
    activation,
    database_pattern,
    grant,
    setting,
)

OLDEST = (10, 5)
"""The first version of MariaDB that can write columns' names, labels and keys into its binlog."""


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
    """Yield a line for each of MariaDB's settings that would cause loss; ``history``: see ``check``."""
    for name, (wanted, why) in (_WANTED if history else _WANTED | _NAMES).items():
        value = variables.get(name, "")
        if value.upper() != wanted:
            yield (
                f"{name} is {value or 'not known to it'}, {why}: {setting(name, wanted, persists=False)}; "
                "end the sessions that began before"
            )


def missing_grants(held: set[str]) -> list[str]:
    """Return the privileges that the account lacks, by the names in GRANT."""
    return [name for name, names in _NEEDED.items() if not held & (names | _ANY)]


_WANTED = {
    "binlog_format": ("ROW", "rows of other formats are not in the binlog"),
    "binlog_row_image": ("FULL", "a change would not hold all of its row"),
}
_NAMES = {
    "binlog_row_metadata": (
        "FULL", "the binlog would not name columns, labels and keys, and no schema history is kept that does",
    ),
}  # fmt: skip
_NEEDED_GRANTS = ("REPLICATION SLAVE", "REPLICATION CLIENT")
_OLDEST = (5, 6)
"""MySQL 5.5 is read only to cover the older binlog formats; the whole worker was never tested with it."""
_OLDEST_WITH_NAMES = (8, 0, 1)
"""Since this version the binlog can name columns."""


def check(
    facts: ServerFacts,
    address: SourceAddress,
    *,
    history: bool = False,
    databases: Collection[str] = (),
    permissive: bool = False,
) -> None:
    """Raise PreflightError with every fault, or ServerIdConflict if another replica uses the server_id.

    ``history``: whether a schema history is kept, so that the binlog need not name columns;
    ``databases``: the databases of captured tables, if the filter names them; ``permissive``: whether
    gtid_mode may be between ON and OFF.
    """
    faults = list(_faults(facts, address, history=history, databases=databases))
    if not permissive and (fault := _mode_fault(facts)):
        faults.append(fault)
    if faults:
        raise PreflightError(
            Faults.listed(f"{len(faults)} problem(s) on {address}:", faults),
            remedy="Correct them, then restart this destination; nothing was read or written",
        )
    for replica in facts.replicas:
        if replica.server_id == address.server_id and not _is_this_worker(replica, facts, address):
            raise ServerIdConflict(
                f"{address} has another replica with it, at {replica.host or 'an unnamed host'}, "
                f"UUID {replica.uuid or 'unknown'}",
                server_id=address.server_id,
            )


def warnings(facts: ServerFacts, address: SourceAddress) -> list[str]:
    """Return warnings about conditions that are not faults, but may hide tables from the account."""
    if not facts.inactive_roles or facts.privileges.is_everything:
        return []
    to = account(facts.current_user, address.user)
    return [
        f"the account on {address} has roles that are not active, so tables granted to them only are not seen:"
        + activation(facts.inactive_roles, to, mariadb=facts.is_mariadb).removeprefix(" or")
        + " then restart the destination"
    ]


def _is_this_worker(replica: Replica, facts: ServerFacts, address: SourceAddress) -> bool:
    """Whether a replica is this destination's own connection from an earlier run."""
    if facts.is_mariadb or "server_uuid" not in facts.variables:
        # Such servers store no UUIDs of replicas.
        return replica.host == address.report_host[:REPORTED_HOST]
    return replica.uuid == address.replica_uuid


def _faults(
    facts: ServerFacts, address: SourceAddress, *, history: bool, databases: Collection[str]
) -> Iterator[str]:
    if fault := _version_fault(facts, history=history):
        yield fault
        return
    if facts.variables.get("log_bin", "OFF").upper() != "ON":
        yield "log_bin is OFF: start mysqld with --log-bin (it cannot be set while it runs)"
        return
    if facts.is_mariadb:
        yield from setting_faults(facts.variables, history=history)
    else:
        yield from _setting_faults(facts, history=history)
    yield from _filter_faults(facts)
    yield from _grant_faults(facts, address)
    if history and not _names_columns(facts) and facts.privileges.is_nothing:
        to = account(facts.current_user, address.user)
        is_literal = facts.privileges.is_literal
        scopes = sorted(database_pattern(one, is_literal=is_literal) for one in databases)
        yield (
            "its binlog names no columns, and the account may read no table, so that nothing does: "
            + " ".join(grant("SELECT", scope, to) for scope in scopes or ["*.*"])
            + activation(facts.inactive_roles, to, mariadb=facts.is_mariadb)
        )
    if facts.variables.get("server_id") == str(address.server_id):
        yield (
            f"its own server_id is {address.server_id}, as this destination's: "
            "give the destination another server_id"
        )
    updates = facts.variables.get("log_replica_updates", facts.variables.get("log_slave_updates"))
    if facts.is_replica and updates == "OFF":
        is_new = "log_replica_updates" in facts.variables
        name = "log_replica_updates" if is_new else "log_slave_updates"
        yield (
            f"it is a replica with {name}=OFF, so its binlog lacks its source's changes: "
            f"start it with --{name.replace('_', '-')}, or capture its source"
        )


def _filter_faults(facts: ServerFacts) -> Iterator[str]:
    """Yield a fault if captured databases are excluded from the binlog."""
    filters = facts.binlog_filters
    if not facts.excluded:
        return
    settings = "; ".join(
        f"{name} = {', '.join(listed)}"
        for name, listed in (("binlog_do_db", filters.do), ("binlog_ignore_db", filters.ignore))
        if listed
    )
    yield (
        f"its binlog omits {', '.join(facts.excluded)}, which the filter captures ({settings}): start mysqld "
        "without these options, or remove the databases from filter.include; to continue without their "
        "changes, add binlog_filters to the destination's `accept` in the settings"
    )


def _version_fault(facts: ServerFacts, *, history: bool) -> str | None:
    version = facts.variables.get("version", "")
    if facts.is_mariadb:
        return version_fault(version, _numbers(version))
    oldest = _OLDEST if history else _OLDEST_WITH_NAMES
    if _numbers(version) >= oldest:
        return None
    fault = f"it is version {version or 'unknown'}; MySQL {'.'.join(map(str, oldest))} or newer is needed"
    if _numbers(version) >= _OLDEST:
        fault += " where no schema history is kept: set schema_history.store to journal"
    return fault


def _names_columns(facts: ServerFacts) -> bool:
    return facts.variables.get("binlog_row_metadata", "").upper() == "FULL"


def _setting_faults(facts: ServerFacts, *, history: bool) -> Iterator[str]:
    numbers = _numbers(facts.variables.get("version", ""))
    for name, (wanted, why) in (_WANTED if history else _WANTED | _NAMES).items():
        value = facts.variables.get(name)
        if value is None and numbers < PERSISTS:
            # The server is older than the variable, and always behaves as with the wanted value.
            continue
        if (value or "").upper() != wanted:
            yield f"{name} is {value or 'not known to it'}, {why}: {_set(name, wanted, numbers)}"


def _mode_fault(facts: ServerFacts) -> str | None:
    mode = facts.variables.get("gtid_mode", "OFF").upper()
    if mode in ("ON", "OFF") or facts.is_mariadb:
        return None
    numbers = _numbers(facts.variables.get("version", ""))
    return f"gtid_mode is {mode}, on its way between OFF and ON: {_to_gtids(facts, mode, numbers)}"


def _to_gtids(facts: ServerFacts, mode: str, numbers: tuple[int, ...]) -> str:
    """Return the steps to ``gtid_mode = ON``; the server requires each of them."""
    steps = [("gtid_mode", "ON")]
    if mode == "OFF_PERMISSIVE":
        steps.insert(0, ("gtid_mode", "ON_PERMISSIVE"))
    if facts.variables.get("enforce_gtid_consistency", "ON").upper() != "ON":
        steps.insert(0, ("enforce_gtid_consistency", "ON"))
    return " ".join(_set(name, value, numbers) for name, value in steps)


def _set(name: str, value: str, numbers: tuple[int, ...]) -> str:
    return setting(name, value, persists=numbers >= PERSISTS)


def _grant_faults(facts: ServerFacts, address: SourceAddress) -> Iterator[str]:
    held = _global_privileges(facts.grants)
    missing = missing_grants(held) if facts.is_mariadb else _missing_grants(held)
    if missing:
        wanted = ", ".join(missing)
        to = account(facts.current_user, address.user)
        roles = activation(facts.inactive_roles, to, mariadb=facts.is_mariadb)
        yield f"the account lacks {wanted}: {grant(wanted, '*.*', to)}{roles}"


def _missing_grants(held: set[str]) -> list[str]:
    return [grant for grant in _NEEDED_GRANTS if not held & {grant, "ALL PRIVILEGES", "SUPER"}]


def _global_privileges(grants: tuple[str, ...]) -> set[str]:
    held: set[str] = set()
    for held_by in grants:
        match = re.match(r"GRANT (.+) ON \*\.\* TO", held_by)
        if match:
            held.update(name.strip() for name in match[1].split(","))
    return held


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in re.findall(r"\d+", version)[:3])
