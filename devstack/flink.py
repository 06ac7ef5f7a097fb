"""Apache Flink as a library, for a test: its jars, of which PyPI's package has the whole distribution.

Maven's repositories have parts of Flink alone, and its archive is no package registry. The package is pinned by
hash, and so are the jars that it lacks.
"""

import os
import shutil
import subprocess
import sys
import tarfile
from pathlib import Path

from devstack import jars, java
from devstack.errors import ChecksumError, DownloadError
from devstack.paths import CACHE
from devstack.processes import Children
from devstack.progress import report_progress
from devstack.seal import intact, one_at_a_time, sha256, write_seal

VERSION = "1.20.3"
_PACKAGE = f"apache-flink-libraries=={VERSION}"
_SHA256 = "f07f07a46bb272c1e851379ed92105928367019db31240091a5367fc92800289"


def find_or_fetch(owner: Children, cache: Path = CACHE) -> list[Path]:
    """Return the jars of Flink's class path; fetch them if they are missing."""
    folder = cache / "flink"
    with one_at_a_time(cache / "flink.lock", owner):
        if not intact(folder, about={"sha256": _SHA256}):
            _fetch(folder)
    program = java.find_or_install(owner, cache)
    jars.fetch(["flink"], program, owner=owner, cache=cache)
    return sorted([*folder.glob("*.jar"), *(cache / "jars/flink").glob("*.jar")])


def _fetch(folder: Path) -> None:
    work = folder.with_name("flink.partial")
    shutil.rmtree(work, ignore_errors=True)
    work.mkdir(parents=True)
    report_progress("flink", "downloading")
    command = [
        sys.executable,
        "-m",
        "pip",
        "-q",
        "download",
        "--no-deps",
        "-d",
        str(work),
        _PACKAGE,
    ]
    done = subprocess.run(
        command, capture_output=True, text=True, check=False, env=dict(os.environ)
    )
    if done.returncode:
        raise DownloadError(f"Flink could not be fetched: {done.stderr.strip()}")
    (archive,) = work.glob("*.tar.gz")
    if (found := sha256(archive)) != _SHA256:
        raise ChecksumError(
            f"{archive.name} has SHA-256 {found}, but {_SHA256} is pinned; it is not used."
        )
    root = work / "root"
    root.mkdir()
    with tarfile.open(archive) as opened:
        for member in opened:
            path = Path(member.name)
            if member.isfile() and path.parts[1:-1] == ("deps", "lib") and path.suffix == ".jar":
                source = opened.extractfile(member)
                assert source is not None
                with source, (root / path.name).open("wb") as target:
                    shutil.copyfileobj(source, target)
    write_seal(root, about={"sha256": _SHA256})
    shutil.rmtree(folder, ignore_errors=True)
    root.rename(folder)
    shutil.rmtree(work)
