"""A server's packages unpacked below .cache, which needs neither privileges nor an installation.

An unpacked program runs with the C library of its package, whatever the host's is.
"""

import os
import shutil
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from devstack import apt, sources
from devstack.errors import MissingSoftwareError
from devstack.processes import Children
from devstack.progress import report_progress
from devstack.seal import intact, one_at_a_time, sha256, write_seal


@dataclass(frozen=True, slots=True)
class Wanted:
    """An archive, lists of packages to ask it for (the best first), and which programs to keep."""

    archive: Sequence[sources.Source]
    packages: Sequence[Sequence[str]]
    programs: set[str]
    """The programs to keep in usr/bin; all of usr/sbin is kept."""
    remedy: str
    alone: Sequence[str] = ()
    """More packages, without their dependencies."""


def kept(name: str, wanted: Callable[[], Wanted], *, cache: Path, owner: Children) -> Path:
    """Return the folder `name` below the cache, filled if it is missing or incomplete."""
    prefix = cache / name
    with one_at_a_time(cache / f"{name}.lock", owner):
        if not intact(prefix):
            _fetch(prefix, wanted(), owner)
    return prefix


def with_own_libraries(prefix: Path, *, but: str) -> tuple[str, ...]:
    """Return the unpacked loader with the paths of its libraries; no folder called `but`."""
    # Not the link in lib64: on older systems it leads to the host's own loader.
    loader = next(prefix.glob("**/*-linux-gnu*/ld-linux*.so.*"))
    libraries = sorted(
        {path.parent for path in prefix.rglob("*.so.*") if but not in str(path.relative_to(prefix))}
    )
    return (str(loader), "--library-path", os.pathsep.join(map(str, libraries)))


def _fetch(prefix: Path, wanted: Wanted, owner: Children) -> None:
    name = prefix.name
    work = prefix.with_name(f"{name}.partial")
    shutil.rmtree(work, ignore_errors=True)
    private = apt.PrivateApt(work / "apt", wanted.archive, owner=owner)
    report_progress(name, "fetching the lists of packages")
    private.update()
    packages = next((found for names in wanted.packages if (found := private.closure(names))), None)
    if packages is None:
        raise MissingSoftwareError(f"this system's package archive has no {name}; {wanted.remedy}")
    report_progress(name, f"downloading {len(packages)} packages")
    debs = private.download([*packages, *wanted.alone], work / "debs")
    report_progress(name, f"unpacking {len(debs)} packages")
    for deb in debs:
        owner.run(["dpkg", "-x", str(deb), str(work / "root")], log=work / "dpkg.log")
    _prune(work / "root", wanted.programs)
    write_seal(work / "root", about={deb.name: sha256(deb) for deb in debs})
    shutil.rmtree(prefix, ignore_errors=True)
    (work / "root").rename(prefix)
    shutil.rmtree(work)


def _prune(root: Path, programs: set[str]) -> None:
    for name in ("doc", "man", "locale", "lintian", "gdb", "gcc"):
        shutil.rmtree(root / "usr/share" / name, ignore_errors=True)
    for path in (root / "usr/bin").glob("*"):
        if path.name not in programs:
            path.unlink()
