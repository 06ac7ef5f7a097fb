"""Fixtures that every test may use: a clean environment, and the real servers, started once."""

import gc
import os
import re
import shutil
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings
from xdist.scheduler import LoadFileScheduling

from devstack import Stack
from tests.harness.servers import own_stack

# An example that takes long on a busy machine is no failure.
settings.register_profile("untimed", settings.default, deadline=None)
settings.load_profile("untimed")


def pytest_configure() -> None:
    """Take Ctrl-C as a terminal's programs do, so that the programs the tests start and interrupt do too.

    Whatever runs the tests in the background may have it ignored, and that is inherited.
    """
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_collection_finish() -> None:
    """Exempt the modules and the 8,000 tests from garbage collection: each would search them again."""
    gc.collect()
    gc.freeze()


@pytest.fixture(scope="session", autouse=True)
def without_own_settings() -> Iterator[None]:
    """Keep the user's own settings (AQUEDUCT_…) out of the tests."""
    with pytest.MonkeyPatch.context() as patch:
        for name in list(os.environ):
            if name.startswith("AQUEDUCT_"):
                patch.delenv(name)
        yield


@pytest.fixture(scope="session")
def stack(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    """MySQL, Kafka and ZooKeeper, shared by all tests: use names of your own in them."""
    folder: Path = tmp_path_factory.mktemp("stack")
    with own_stack(folder) as running:
        yield running


@pytest.fixture(scope="module", autouse=True)
def without_old_data(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Give back the disk of servers that run no more: a run starts over a hundred, of 200 MiB each."""
    yield
    servers = set(_servers(tmp_path_factory.getbasetemp()))
    if not servers:
        return
    running = {path for path in map(_data_of, Path("/proc").glob("[0-9]*/cmdline")) if path}
    for data in {server / "data" for server in servers} - running:
        shutil.rmtree(data, ignore_errors=True)


def _servers(below: Path) -> Iterator[Path]:
    """The folders of MySQL servers; not by glob(), which fails where a broker removes a folder just then."""
    for folder, inside, files in os.walk(below):
        if "mysqld.log" in files:
            yield Path(folder)
        if not {"mysqld.log", "kafka.log"}.isdisjoint(files):
            # A broker has a folder for each partition: thousands by the last of 700 modules.
            inside.clear()


def _data_of(command: Path) -> Path | None:
    """The data directory in a process's command line."""
    try:
        found = re.search(rb"\0--datadir=([^\0]+)", command.read_bytes())
    except OSError:  # it has ended
        return None
    return Path(os.fsdecode(found[1])) if found else None


def pytest_report_header() -> str:
    """Which servers are asked, and whether long tests run."""
    rare = f"all but MySQL and MariaDB {', '.join(sorted(_RARE))} (SERVERS=all asks every one)"
    servers = "every one" if _every_server() else rare
    return f"servers: {servers}; long tests: {'run' if _runs_long() else 'left to make test SUITE=long'}"


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Mark what uses the servers, for `-m "not stack"`; leave out rare servers and long tests."""
    for item in items:
        if _REAL.intersection(getattr(item, "fixturenames", ())):
            item.add_marker(pytest.mark.stack)
    out = set() if _every_server() else {item for item in items if _is_of_rare_server(item)}
    if not _runs_long():
        out |= {item for item in items if item.get_closest_marker("long")}
    if out:
        config.hook.pytest_deselected(items=list(out))
        items[:] = [item for item in items if item not in out]
    _longest_first(items)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """Give files to the jobs, but all files of a shared Spark session to one, and all checks of our own files.

    A session is expensive: its first batches take five times as long as later ones. With two, both processors
    are busy to the end. What is checked of our own files is parsed once.
    """
    scheduler: Any = LoadFileScheduling(config, log)
    by_file = scheduler._split_scope

    def scope(test: str) -> Any:
        if test.startswith(_OWN_FILES):
            return _OWN_FILES
        session = next((name for name, files in _SPARK.items() if files.match(test)), None)
        return session or by_file(test)

    scheduler._split_scope = scope
    return scheduler


def _longest_first(items: list[pytest.Item]) -> None:
    """Begin with Spark's files, which are one job's, then those that start servers: with the short ones
    last, all jobs end together."""
    slow = {
        item.path
        for item in items
        if item.get_closest_marker("stack")
        or _SERVERS.intersection(getattr(item, "fixturenames", ()))
    }

    def of_session(item: pytest.Item) -> bool:
        return any(files.match(item.nodeid) for files in _SPARK.values())

    items.sort(key=lambda item: (not of_session(item), item.path not in slow))


_SPARK = {
    "batches": re.compile(
        "tests/(unit/spark_sink/(batch|source)/|crash/test_sink_quick.py"
        "|integration/spark_sink/test_(load_ranges|sink).py)"
    ),
    "others": re.compile(
        "tests/(unit/spark_sink/|contract/test_(columns|dead_letters|recent_changes|warehouses).py"
        "|integration/spark_sink/test_cuts.py)"
    ),
}
"""Files that share a Spark session, by its name; the first that matches a node id decides."""
_OWN_FILES = "tests/architecture/"
_RARE = {"5.5", "8.0", "10.11"}
"""Of these there is another on either side; `make test SUITE=servers` asks them too."""
_REAL = {"stack", "servers", "children"}
"""Fixtures that start servers of devstack."""
_SERVERS = {
    "stack",
    "servers",
    "server",
    "composed",
    "mysql",
    "mariadb",
    "newest",
    "spark",
    "running",
    "children",
}
"""Fixtures that start some."""
_SERVER = re.compile(r"(?:mariadb-)?(\d+\.\d+)(?: without GTIDs)?")


def _every_server() -> bool:
    return os.environ.get("SERVERS") == "all"


def _runs_long() -> bool:
    return os.environ.get("LONG") == "all"


def _is_of_rare_server(item: pytest.Item) -> bool:
    values = getattr(getattr(item, "callspec", None), "params", {}).values()
    found = [_SERVER.fullmatch(value) for value in values if isinstance(value, str)]
    return any(match and match[1] in _RARE for match in found)
