"""Archives of the classes that Spark's JVM loads, which later starts map into memory (JEP 350).

An archive of the jars in ``<folder>/spark`` is ``<folder>/spark-*.jsa``.

Invariant: an archive saves time and changes nothing else; a JVM that cannot use one starts without it.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

_SILENT: Final = ("-Xlog:cds=off", "-Xlog:cds+dynamic=off")


def jvm_options(jars: Path) -> list[str]:
    """The JVM's options for the archive of these jars; none without one."""
    found = sorted(jars.absolute().parent.glob(f"{jars.name}-*.jsa"))
    return [f"-XX:SharedArchiveFile={found[-1]}", *_SILENT] if found else []
