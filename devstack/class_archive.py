"""Archives of the classes that a server's JVM loads, which later starts map into memory.

A broker's start takes half the processor time with one (dynamic archives, JEP 350).

Invariant: an archive saves time and changes nothing else; a JVM that cannot use one starts without it.
"""

import hashlib
from collections.abc import Callable
from pathlib import Path

from devstack.processes import Children
from devstack.seal import one_at_a_time

_SILENT = ["-Xlog:cds=off", "-Xlog:cds+dynamic=off"]


def use(jars: Path, java: str) -> list[str]:
    """Return the JVM's options for the archive of a folder of jars; none if it has not been made."""
    archive = _path(jars, java)
    return [f"-XX:SharedArchiveFile={archive}", *_SILENT] if archive.exists() else []


def make(jars: Path, java: str, run: Callable[[list[str]], None], *, owner: Children) -> None:
    """Make the archive, once: `run` starts and ends a server with the given options for its JVM."""
    archive = _path(jars, java)
    with one_at_a_time(archive.with_suffix(".lock"), owner):
        if archive.exists():
            return
        for old in jars.parent.glob(f"{jars.name}-*.jsa"):
            old.unlink()
        unfinished = archive.with_suffix(".partial")
        run([f"-XX:ArchiveClassesAtExit={unfinished}", *_SILENT])
        if unfinished.exists():
            unfinished.rename(archive)


def _path(jars: Path, java: str) -> Path:
    """The archive of these jars, as this Java can read it."""
    facts = Path(java).resolve().stat()
    made_of = [java, str(facts.st_size), str(facts.st_mtime_ns)]
    made_of += sorted(f"{jar.name} {jar.stat().st_mtime_ns}" for jar in jars.glob("*.jar"))
    key = hashlib.sha256("\n".join(made_of).encode()).hexdigest()[:16]
    return jars.with_name(f"{jars.name}-{key}.jsa")
