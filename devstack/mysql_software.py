"""Find a mysqld of MySQL 8.0 or newer, or fetch one without installing anything.

Needs only the standard library and the system's apt, so that it can run while pip still works.
A fetched mysqld runs with its own C library, whatever the host's is.
"""

import os
import platform
import re
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

from devstack import apt, sources, unpacked
from devstack.errors import MissingSoftwareError
from devstack.paths import CACHE
from devstack.processes import Children

_OLDEST = (8, 0)
_REMEDY = "install MySQL 8.0 or newer so that `mysqld` is on the PATH."
_TOOLS = {"mysql", "mysqlbinlog", "mysqldump", "mysqladmin"}
_RELEASES = {"stable", "oldstable", "testing", "unstable", "sid"}


@dataclass(frozen=True, slots=True)
class MysqlSoftware:
    """The commands of a mysqld and mysqlbinlog, and the options that name their files."""

    server: tuple[str, ...]
    options: tuple[str, ...] = ()
    mysqlbinlog: tuple[str, ...] | None = None
    share: Path | None = None
    """The folder with its scripts, if they are needed."""


def find_or_fetch(owner: Children, cache: Path = CACHE) -> MysqlSoftware:
    """Return the host's MySQL if it is usable, else a fetched one."""
    if host := host_mysql():
        return host
    return software_in(unpacked.kept("mysql", _wanted, cache=cache, owner=owner))


def client_programs(cache: Path = CACHE) -> dict[str, tuple[str, ...]]:
    """Return the commands of the fetched client programs, by name; none if the host's MySQL is used."""
    prefix = cache / "mysql"
    if host_mysql() or not (prefix / "usr/bin").is_dir():
        return {}
    run = unpacked.with_own_libraries(prefix, but="mysql")
    return {path.name: (*run, str(path)) for path in sorted((prefix / "usr/bin").iterdir())}


def host_mysql() -> MysqlSoftware | None:
    """Return the mysqld on the PATH unless it is too old, MariaDB's, or confined."""
    path = os.pathsep.join((os.environ.get("PATH", ""), "/usr/sbin"))
    server = shutil.which("mysqld", path=path)
    if server is None or _confined(server):
        return None
    banner = subprocess.run([server, "--version"], capture_output=True, text=True, check=False)
    if not is_usable(banner.stdout):
        return None
    binlog = shutil.which("mysqlbinlog", path=path)
    return MysqlSoftware((server,), mysqlbinlog=(binlog,) if binlog else None)


def is_usable(banner: str) -> bool:
    """Return whether the output of `mysqld --version` is that of MySQL 8.0 or newer."""
    version = re.search(r"Ver (\d+)\.(\d+)", banner)
    return (
        version is not None
        and "mariadb" not in banner.lower()
        and (int(version[1]), int(version[2])) >= _OLDEST
    )


def _confined(server: str) -> bool:
    """Return whether AppArmor keeps this mysqld out of folders that are not its own."""
    enabled = Path("/sys/module/apparmor/parameters/enabled")
    profile = Path("/etc/apparmor.d") / server.strip("/").replace("/", ".")
    return profile.exists() and enabled.exists() and enabled.read_text().strip() == "Y"


def software_in(prefix: Path) -> MysqlSoftware:
    """Return how to run the MySQL that was unpacked into `prefix`."""
    run = unpacked.with_own_libraries(prefix, but="mysql")
    share = prefix / "usr/share/mysql"
    binlog = prefix / "usr/bin/mysqlbinlog"
    return MysqlSoftware(
        server=(*run, str(prefix / "usr/sbin/mysqld")),
        options=(
            f"--basedir={prefix / 'usr'}",
            f"--lc-messages-dir={share}",
            f"--character-sets-dir={share / 'charsets'}",
            f"--plugin-dir={prefix / 'usr/lib/mysql/plugin'}",
        ),
        mysqlbinlog=(*run, str(binlog)) if binlog.exists() else None,
    )


def _wanted() -> unpacked.Wanted:
    """Return the archive to use, and the packages to request, the best first."""
    if not shutil.which("apt-get"):
        raise MissingSoftwareError(f"no mysqld was found, and this system has no apt; {_REMEDY}")
    release = platform.freedesktop_os_release()
    host = apt.host_sources()
    versions: tuple[str, ...]
    if ubuntu := release.get("UBUNTU_CODENAME"):
        own = [s for s in host if any(suite.startswith(ubuntu) for suite in s.suites)]
        versions = ("-8.4", "-8.0", "")
    else:
        codenames = _RELEASES | {release.get("VERSION_CODENAME", "")}
        own = [sources.moved_to(s, "unstable") for s in sources.of_suite(host, codenames)][:1]
        versions = ("",)
    if not own:
        raise MissingSoftwareError(f"apt has no source of this system's own packages; {_REMEDY}")
    names = [[f"mysql-server-core{v}", f"mysql-client-core{v}"] for v in versions]
    return unpacked.Wanted(own, names, programs=_TOOLS, remedy=_REMEDY)
