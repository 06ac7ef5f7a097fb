"""Prepare a checkout: the virtual environment, and the servers' software, at the same time.

Runs on any Python that the project supports, with the standard library alone; pip's work takes the
longest, so MySQL and Java are fetched meanwhile.
"""

import os
import shlex
import sys
import tempfile
from concurrent.futures import Future
from pathlib import Path

from devstack import class_archive, jars, java, mysql_software
from devstack.errors import DownloadError, MissingSoftwareError, ToolError
from devstack.kafka import Kafka
from devstack.parallel import run_all
from devstack.paths import CACHE, PROJECT
from devstack.processes import Children
from devstack.progress import report_progress
from devstack.seal import one_at_a_time
from devstack.zookeeper import ZooKeeper

_VENV = PROJECT / ".venv"
_PYTHON = str(_VENV / "bin/python")
_LOCKS = ("requirements.build.lock", "requirements.lock")


def prepare(owner: Children) -> None:
    """Make `.venv` and fill `.cache`; complete parts are left alone."""
    java_ready: Future[str] = Future()

    def find_java() -> None:
        try:
            java_ready.set_result(java.find_or_install(owner))
        except BaseException as error:
            java_ready.set_exception(error)
            raise

    def python_then_jars() -> None:
        make_venv(owner)
        program = java_ready.result()
        jars.fetch(jars.LOCKS, program, owner=owner)
        archive_classes(program, owner)

    run_all(owner, [lambda: _mysql(owner), find_java, python_then_jars])
    link_programs()


def archive_classes(java: str, owner: Children) -> None:
    """Start Kafka, ZooKeeper and Spark once, so that later starts take less time."""
    for name, make in {"kafka": Kafka, "zookeeper": ZooKeeper}.items():
        folder = CACHE / "jars" / name

        def run(
            options: list[str], make: type[Kafka | ZooKeeper] = make, jars: Path = folder
        ) -> None:
            report_progress(make.__name__.lower(), "archiving its classes, once")
            with tempfile.TemporaryDirectory() as data:
                server = make(Path(data), jars, java=java, owner=owner)
                server.start(options)
                server.stop()

        class_archive.make(folder, java, run, owner=owner)
    folder = CACHE / "jars/spark"

    def train(options: list[str]) -> None:
        report_progress("spark", "archiving its classes, once (about a minute)")
        command = [_PYTHON, "-m", "spark_sink.training", str(folder), *options]
        env = os.environ | {"JAVA_HOME": str(Path(java).resolve().parents[1])}
        owner.run(command, log=CACHE / "spark-training.log", env=env, cwd=PROJECT)

    class_archive.make(folder, java, train, owner=owner)


def link_programs() -> None:
    """Put the fetched MySQL's client programs into `.venv/bin`; they need the C library they came with."""
    for name, command in mysql_software.client_programs().items():
        script = f'#!/bin/sh\nOPENSSL_CONF=/dev/null exec {shlex.join(command)} "$@"\n'
        path = _VENV / "bin" / name
        if not path.exists() or path.read_text() != script:
            path.write_text(script)
            path.chmod(0o755)


def _mysql(owner: Children) -> None:
    mysql_software.find_or_fetch(owner)


def make_venv(owner: Children) -> None:
    """Install exactly what the locks name, with their hashes, and the project itself; once."""
    ready = _VENV / "ready"
    # Of an editable install only the packages of ours that pyproject.toml named are found.
    stated = (*_LOCKS, "pyproject.toml")
    wanted = "".join((PROJECT / name).read_text() for name in stated) + f"# of {PROJECT}\n"
    if ready.exists() and ready.read_text() == wanted:
        return
    log = CACHE / "pip.log"
    with one_at_a_time(CACHE / "venv.lock", owner):
        _ensure_venv_module(owner)
        report_progress(
            "python", f"installing packages for Python {sys.version.split()[0]} (about a minute)"
        )
        try:
            owner.run([sys.executable, "-m", "venv", *_clear(), str(_VENV)], log=log)
            for name in _LOCKS:
                owner.run([*_pip("--require-hashes"), "-r", str(PROJECT / name)], log=log)
            # The faust command looks for an app's packages in site-packages, not in the folder it runs in.
            owner.run([*_pip("--no-deps", "--no-index"), "-e", str(PROJECT)], log=log)
        except ToolError as error:
            raise DownloadError(f"the Python packages could not be installed: {error}") from None
        ready.write_text(wanted)
    report_progress("python", "ready in .venv")


def _clear() -> list[str]:
    """Return the option that empties `.venv`, if another Python made it."""
    same = (_VENV / f"lib/python3.{sys.version_info.minor}").exists()
    return [] if same else ["--clear"]


def _pip(*options: str) -> list[str]:
    install = [_PYTHON, "-m", "pip", "install", "--disable-pip-version-check"]
    return [*install, "--progress-bar=off", "--no-build-isolation", *options]


def _ensure_venv_module(owner: Children) -> None:
    """Install the venv module that Debian's Python lacks, if permitted."""
    try:
        owner.run([sys.executable, "-c", "import ensurepip, venv"], log=CACHE / "venv.log")
    except ToolError:
        package = f"python3.{sys.version_info.minor}-venv"
        if os.geteuid() or not Path("/usr/bin/apt-get").exists():
            message = f"this Python has no `venv` module; install the package {package}."
            raise MissingSoftwareError(message) from None
        report_progress("python", f"installing {package} with apt-get")
        java.apt_install(owner, [package], log=CACHE / "venv.log")
