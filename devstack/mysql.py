"""Run a real server, MySQL's or one of its kind, that writes a row-based binlog with GTIDs.

The data survive `stop()` and `kill()`; a later `start()` uses the same port.
"""

import os
import shutil
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from devstack import first_data
from devstack.mysql_software import MysqlSoftware
from devstack.paths import CACHE
from devstack.ports import HOST, exchange, free_port, wait_until_ready
from devstack.processes import Child, Children

_START_SECONDS = 180
_LONGEST_SOCKET_PATH = 107  # unix(7)

_DEFAULTS = {
    "server_id": "1",
    "gtid_mode": "ON",
    "enforce_gtid_consistency": "ON",
    "binlog_row_image": "FULL",
    "binlog_row_metadata": "FULL",
    "binlog_rows_query_log_events": "OFF",
    "log_bin": "binlog",
    "sync_binlog": "0",
    "innodb_flush_log_at_trx_commit": "2",
    "innodb_buffer_pool_size": "128M",
    "innodb_redo_log_capacity": "128M",
    "performance_schema": "OFF",
    "bind_address": HOST,
    "skip_name_resolve": "ON",
    "secure_file_priv": "NULL",
    "mysqlx": "OFF",
    "default_time_zone": "+00:00",
}

ACCOUNT = "aqueduct"
"""A user who may read the binlog and every table; the password is the same."""
# Not in the binlog: a reader that starts at its beginning finds nothing but its own tables.
_ACCOUNTS = f"""\
SET SESSION sql_log_bin = 0;
CREATE USER IF NOT EXISTS 'root'@'{HOST}';
GRANT ALL ON *.* TO 'root'@'{HOST}' WITH GRANT OPTION;
CREATE USER IF NOT EXISTS '{ACCOUNT}'@'%' IDENTIFIED BY '{ACCOUNT}';
GRANT REPLICATION SLAVE, REPLICATION CLIENT, SELECT ON *.* TO '{ACCOUNT}'@'%';
"""


@dataclass(frozen=True, slots=True)
class Flavour:
    """The setup of one make of server: its options, accounts, and first start."""

    name: str
    defaults: Mapping[str, str]
    accounts: str
    initialize: tuple[str, ...]
    """Options of the run that makes the data directory."""
    through: Callable[[MysqlSoftware, Path, Path], list[str]] = lambda _software, _folder, _data: []
    """The beginning of that run's command, for its folder and its data: a program that passes it
    its scripts."""


MYSQL = Flavour("mysqld", _DEFAULTS, _ACCOUNTS, ("--initialize-insecure", "--skip-log-bin"))


class Mysql:
    """One server: data and log below `folder`, on `host` and `port`.

    `options` are mysqld's, by name with underscores; they replace the flavour's. `port` is used if it is free.
    """

    def __init__(
        self,
        folder: Path,
        software: MysqlSoftware,
        *,
        owner: Children,
        options: Mapping[str, str | int] | None = None,
        flavour: Flavour = MYSQL,
        port: int | None = None,
        cache: Path = CACHE,
    ) -> None:
        self.host = HOST
        self.port = free_port(port)
        self.log = folder / "mysqld.log"
        self.mysqlbinlog = software.mysqlbinlog
        self._folder = folder
        self._software = software
        self._owner = owner
        self._flavour = flavour
        self._cache = cache
        given = {name: str(value) for name, value in (options or {}).items()}
        self._options = {**flavour.defaults, **given}
        self._child: Child | None = None

    @property
    def data(self) -> Path:
        """The folder with the server's data and binlogs."""
        return self._folder / "data"

    @property
    def child(self) -> Child | None:
        """The running server, if there is one."""
        return self._child if self._child and self._child.alive() else None

    def start(self) -> None:
        """Start the server and return once it accepts connections."""
        self._initialize()
        accounts = self._folder / "accounts.sql"
        accounts.write_text(self._flavour.accounts)
        files = [f"--socket={self._socket()}", f"--init-file={accounts}"]
        command = self._command(self.data, *files, f"--port={self.port}")
        label = f"mysql {self.host}:{self.port}"
        self._child = self._owner.start(command, label=label, log=self.log, env=_environment())
        wait_until_ready(
            "mysql",
            self._child,
            self._greets,
            owner=self._owner,
            log=self.log,
            seconds=_START_SECONDS,
        )

    def stop(self) -> None:
        """End the server in order."""
        if self._child:
            self._child.stop()

    def kill(self) -> None:
        """End the server as a crash would."""
        if self._child:
            self._child.kill()

    def _initialize(self) -> None:
        if self.data.exists():
            return
        unfinished = self._folder / "data.partial"
        shutil.rmtree(unfinished, ignore_errors=True)
        self._folder.mkdir(parents=True, exist_ok=True)
        program = Path(self._software.server[-1])
        key = first_data.key_of(program, self._options, self._flavour.initialize)
        first_data.copy_to(unfinished, key, self._make, cache=self._cache, owner=self._owner)
        unfinished.rename(self.data)

    def _make(self, data: Path) -> None:
        """Fill an empty folder with a server's first data."""
        flavour, log = self._flavour, self._folder / "initialize.log"
        command = [
            *flavour.through(self._software, self._folder, data),
            *self._command(data, *flavour.initialize),
        ]
        name = f"{flavour.name} {flavour.initialize[0]}"
        self._owner.run(command, log=log, name=name, env=_environment())

    def _command(self, data: Path, *arguments: str) -> list[str]:
        software = self._software
        # A starting server removes what looks like another's leftovers in the folder for temporary
        # tables.
        own = [f"--datadir={data}", f"--tmpdir={self._temporary()}"]
        own += ["--user=root"] if os.geteuid() == 0 else []
        options = [f"--{name}={value}" for name, value in self._options.items()]
        return [
            *(*software.server, "--no-defaults"),
            *software.options,
            *own,
            *options,
            *arguments,
        ]

    def _temporary(self) -> Path:
        folder = self._folder / "tmp"
        folder.mkdir(parents=True, exist_ok=True)
        return folder

    def _socket(self) -> Path:
        path = self._folder / "mysqld.sock"
        if len(os.fsencode(path)) <= _LONGEST_SOCKET_PATH:
            return path
        return Path(tempfile.gettempdir()) / f"aqueduct-mysqld-{self.port}.sock"

    def _greets(self) -> bool:
        """Return whether the server sends a handshake (protocol 10), not an error."""
        packet = exchange(self.port, b"", 5)
        return len(packet) == 5 and packet[4] == 10


def _environment() -> dict[str, str]:
    """Return an environment in which a fetched mysqld loads none of the host's libraries."""
    kept = {name: os.environ[name] for name in ("PATH", "HOME", "TMPDIR") if name in os.environ}
    return kept | {"LC_ALL": "C", "OPENSSL_CONF": "/dev/null"}
