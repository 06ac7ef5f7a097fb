"""The command line: `python -m devstack setup|up|down|status|jars|java|mysql`.

Servers started by `up` run until `down`; all else ends with its command.
"""

import argparse
import signal
import sys
from collections.abc import Callable, Iterable
from pathlib import Path

from devstack import detached, environment, jars, java, mysql_software
from devstack.errors import DevstackError
from devstack.mysql import ACCOUNT
from devstack.paths import CACHE, RUNS
from devstack.processes import Children


def main() -> int:
    """Run one command; return the process's exit status."""
    parser = argparse.ArgumentParser(prog="devstack", description=__doc__)
    parser.add_argument("command", choices=_COMMANDS)
    parser.add_argument("--name", default="default", help="the run folder within .run/")
    parser.add_argument("--s3", action="store_true", help="with jars: those for buckets too")
    arguments = parser.parse_args()
    if arguments.s3 and arguments.command != "jars":
        parser.error("--s3 is an option of jars")
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        if arguments.s3:
            _fetch_jars((*jars.LOCKS, "s3"))
        else:
            _COMMANDS[arguments.command](RUNS / arguments.name)
    except DevstackError as error:
        sys.stderr.write(f"devstack: {error}\n")
        return 1
    except KeyboardInterrupt:
        sys.stderr.write("devstack: stopped; nothing is left running.\n")
        return 130
    return 0


def _up(folder: Path) -> None:
    servers = detached.up(folder)
    mysql = next(server for server in servers if server.name == "mysql")
    _print([*servers, *_hints(mysql.address)])


def _hints(mysql: str) -> list[str]:
    """Return the commands to log in."""
    host, _, port = mysql.rpartition(":")
    return [
        "",
        f"MySQL's accounts: root without a password, {ACCOUNT} with the password {ACCOUNT}",
        f"  mysql --host={host} --port={port} --user=root     (.venv/bin/mysql where none is installed)",
    ]


def _down(folder: Path) -> None:
    stopped = detached.down(folder)
    _print(f"{server.name:<10} {server.address:<18} stopped" for server in stopped)


def _status(folder: Path) -> None:
    _print(detached.read(folder) or ["no servers have been started"])


def _setup(_folder: Path) -> None:
    _with_children(environment.prepare)


def _jars(_folder: Path) -> None:
    _fetch_jars(jars.LOCKS)


def _fetch_jars(names: Iterable[str]) -> None:
    def fetch(owner: Children) -> None:
        jars.fetch(names, java.find_or_install(owner), owner=owner)

    _with_children(fetch)
    _print(CACHE / "jars" / name for name in names)


def _java(_folder: Path) -> None:
    _with_children(lambda owner: _print([java.find_or_install(owner)]))


def _mysql(_folder: Path) -> None:
    _with_children(lambda owner: _print([" ".join(mysql_software.find_or_fetch(owner).server)]))


def _with_children(action: Callable[[Children], None]) -> None:
    owner = Children()
    try:
        action(owner)
    finally:
        owner.close()


def _print(lines: Iterable[object]) -> None:
    sys.stdout.writelines(f"{line}\n" for line in lines)


_COMMANDS: dict[str, Callable[[Path], None]] = {
    "setup": _setup,
    "up": _up,
    "down": _down,
    "status": _status,
    "jars": _jars,
    "java": _java,
    "mysql": _mysql,
}

if __name__ == "__main__":
    sys.exit(main())
