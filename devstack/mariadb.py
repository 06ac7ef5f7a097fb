"""Run a real MariaDB of each supported series, for tests.

The server is Debian's own package of that series, fetched at its first use and unpacked with the C
library it was built for.
"""

import shlex
from pathlib import Path

from devstack import apt, sources, unpacked
from devstack.errors import MissingSoftwareError
from devstack.mysql import Flavour
from devstack.mysql_software import MysqlSoftware
from devstack.paths import CACHE
from devstack.ports import HOST
from devstack.processes import Children

RELEASES = {"10.11": "bookworm", "11.8": "trixie"}
"""The release of Debian that has each series of MariaDB."""

_REMEDY = "MariaDB is fetched from Debian's archive, which this system does not use."
_DEBIAN = {"bookworm", "trixie", "stable", "oldstable", "testing", "unstable", "sid"}

_ACCOUNTS = f"""\
SET SESSION sql_log_bin = 0;
CREATE USER IF NOT EXISTS 'root'@'{HOST}';
GRANT ALL ON *.* TO 'root'@'{HOST}' WITH GRANT OPTION;
CREATE USER IF NOT EXISTS 'aqueduct'@'%' IDENTIFIED BY 'aqueduct';
GRANT REPLICATION SLAVE, BINLOG MONITOR, SELECT ON *.* TO 'aqueduct'@'%';
"""


def find_or_fetch(series: str, owner: Children, cache: Path = CACHE) -> MysqlSoftware:
    """Return the MariaDB of a series, `10.11` or `11.8`; fetch it if it is missing."""
    name = f"mariadb-{series}"
    prefix = unpacked.kept(name, lambda: _wanted(RELEASES[series]), cache=cache, owner=owner)
    return software_in(prefix)


def _wanted(release: str) -> unpacked.Wanted:
    found = sources.of_suite(apt.host_sources(), _DEBIAN)[:1]
    if not found:
        raise MissingSoftwareError(_REMEDY)
    archive = [sources.moved_to(source, release) for source in found]
    return unpacked.Wanted(
        archive,
        [["mariadb-server-core"]],
        programs=set(),
        remedy=_REMEDY,
        alone=["mariadb-server"],  # its plugins: binlogs are encrypted by one
    )


def software_in(prefix: Path) -> MysqlSoftware:
    """Return how to run the MariaDB that was unpacked into `prefix`."""
    share = next(path.parent for path in prefix.glob("usr/share/*/charsets"))
    return MysqlSoftware(
        server=(
            *unpacked.with_own_libraries(prefix, but="mariadb/plugin"),
            str(prefix / "usr/sbin/mariadbd"),
        ),
        options=(
            f"--basedir={prefix / 'usr'}",
            f"--lc-messages-dir={share}",
            f"--character-sets-dir={share / 'charsets'}",
            f"--plugin-dir={prefix / 'usr/lib/mysql/plugin'}",
        ),
        share=share,
    )


def _bootstrap(software: MysqlSoftware, folder: Path, _data: Path) -> list[str]:
    """Return the command that makes a data directory: the server reads its own scripts."""
    assert software.share is not None
    scripts = folder / "bootstrap.sql"
    names = ("*_system_tables.sql", "*_performance_tables.sql", "*_system_tables_data.sql")
    texts = [path.read_text() for name in names for path in software.share.glob(name)]
    scripts.write_text("\n".join(["CREATE DATABASE mysql;", "USE mysql;", *texts]))
    return ["sh", "-c", f'exec "$@" < {shlex.quote(str(scripts))}', "sh"]


MARIADB = Flavour(
    name="mariadbd",
    defaults={
        "server_id": "1",
        "binlog_format": "ROW",
        "binlog_row_image": "FULL",
        "binlog_row_metadata": "FULL",
        "binlog_checksum": "CRC32",
        "log_bin": "binlog",
        "sync_binlog": "0",
        "innodb_flush_log_at_trx_commit": "2",
        "innodb_buffer_pool_size": "128M",
        "innodb_log_file_size": "64M",
        "performance_schema": "OFF",
        "bind_address": HOST,
        "skip_name_resolve": "ON",
        "default_time_zone": "+00:00",
        "character_set_server": "utf8mb4",
    },
    accounts=_ACCOUNTS,
    initialize=("--bootstrap", "--skip-log-bin", "--skip-grant-tables"),
    through=_bootstrap,
)
"""MariaDB as a source: rows in the binlog with all their metadata."""
