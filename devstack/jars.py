"""Fetch the pinned jars of Kafka, ZooKeeper and Spark, and accept no other file.

Apache Ivy, which is included in PySpark, does the fetching; it knows the address of Maven's central
repository, and a mirror from Maven's own settings is used instead if there is one. Every jar must
have the SHA-256 of its lock.
"""

import importlib.util
import os
import re
import shutil
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from xml.sax.saxutils import quoteattr

from devstack import maven
from devstack.errors import ChecksumError, DownloadError, MissingSoftwareError, ToolError
from devstack.paths import CACHE, PROJECT
from devstack.processes import Children
from devstack.progress import report_progress
from devstack.seal import intact, one_at_a_time, sha256, write_seal

LOCKS = {
    "kafka": PROJECT / "devstack/kafka.lock",
    "zookeeper": PROJECT / "devstack/zookeeper.lock",
    "spark": PROJECT / "spark_sink/jars.lock",
    "iceberg": PROJECT / "spark_sink/iceberg.lock",
    "jdbc": PROJECT / "spark_sink/jdbc.lock",
}
OPTIONAL_LOCKS = {
    "s3": PROJECT / "spark_sink/s3.lock",
    # Only a test of many minutes needs each of these.
    "sqlite": PROJECT / "devstack/sqlite.lock",
    "flink": PROJECT / "devstack/flink.lock",
}
"""Sets that only those need who ask for them."""


@dataclass(frozen=True, slots=True)
class Jar:
    """One pinned file of a Maven repository."""

    group: str
    artifact: str
    version: str
    classifier: str
    sha256: str

    @property
    def file_name(self) -> str:
        """The name it has in Maven's repositories."""
        suffix = f"-{self.classifier}" if self.classifier else ""
        return f"{self.artifact}-{self.version}{suffix}.jar"


def parse_lock(text: str) -> list[Jar]:
    """Read lines of `group:artifact:version[:classifier] sha256`; `#` begins a comment."""
    lines = enumerate(text.splitlines(), start=1)
    return [_parse_line(n, line) for n, raw in lines if (line := raw.partition("#")[0].strip())]


def _parse_line(number: int, line: str) -> Jar:
    match = re.fullmatch(r"([\w.-]+):([\w.-]+):([\w.-]+)(?::([\w.-]+))?\s+([0-9a-f]{64})", line)
    if not match:
        expected = "group:artifact:version[:classifier] sha256"
        raise DownloadError(f"line {number} of a jars' lock is not `{expected}`: {line}")
    return Jar(match[1], match[2], match[3], match[4] or "", match[5])


def fetch(
    names: Iterable[str],
    java: str,
    *,
    owner: Children,
    cache: Path = CACHE,
    locks: Mapping[str, Path] = LOCKS | OPTIONAL_LOCKS,
) -> None:
    """Fill `<cache>/jars/<name>` for each named set of `locks`, unless it is there and whole."""
    jars = cache / "jars"
    with one_at_a_time(cache / "jars.lock", owner):
        wanted = {name: parse_lock(locks[name].read_text()) for name in names}
        missing = {
            name: lock
            for name, lock in wanted.items()
            if not intact(jars / name, about=_hashes(lock))
        }
        if missing:
            _fetch(missing, java, owner=owner, jars=jars)


def _hashes(lock: Iterable[Jar]) -> dict[str, str]:
    return {jar.file_name: jar.sha256 for jar in lock}


def _fetch(sets: dict[str, list[Jar]], java: str, *, owner: Children, jars: Path) -> None:
    work = jars.with_name("jars.partial")
    shutil.rmtree(work, ignore_errors=True)
    work.mkdir(parents=True)
    unique = {jar.file_name: jar for lock in sets.values() for jar in lock}
    report_progress("jars", f"downloading {len(unique)} jars for {', '.join(sets)}")
    _run_ivy(unique.values(), java, owner=owner, work=work)
    for name, lock in sets.items():
        folder = work / name
        folder.mkdir()
        for jar in lock:
            verify(work / "fetched" / jar.file_name, jar)
            shutil.copy2(work / "fetched" / jar.file_name, folder)
        write_seal(folder, about=_hashes(lock))
        shutil.rmtree(jars / name, ignore_errors=True)
        jars.mkdir(exist_ok=True)
        folder.rename(jars / name)
    shutil.rmtree(work)


def verify(file: Path, jar: Jar) -> None:
    """Refuse a file that is not the pinned one."""
    if (found := sha256(file)) != jar.sha256:
        raise ChecksumError(
            f"{jar.file_name} has SHA-256 {found}, but {jar.sha256} is pinned; it is not used."
        )


def _run_ivy(jars: Iterable[Jar], java: str, *, owner: Children, work: Path) -> None:
    (work / "ivy.xml").write_text(ivy_module(jars))
    (work / "settings.xml").write_text(ivy_settings(work / "ivy", maven.mirror()))
    pattern = work / "fetched/[artifact]-[revision](-[classifier]).[ext]"
    command = [
        *(java, "-Xmx256m", *maven.proxy_options(os.environ)),
        *("-cp", str(_ivy_jar()), "org.apache.ivy.Main", "-warn"),
        *("-settings", str(work / "settings.xml"), "-ivy", str(work / "ivy.xml")),
        *("-retrieve", str(pattern)),
    ]
    try:
        owner.run(command, log=work / "ivy.log", name="ivy")
    except ToolError as error:
        raise DownloadError(f"the jars could not be fetched: {error}") from None


def _ivy_jar() -> Path:
    spec = importlib.util.find_spec("pyspark")
    folders = [Path(found) for found in (spec.submodule_search_locations or ())] if spec else []
    folders += (PROJECT / ".venv/lib").glob("python3.*/site-packages/pyspark")
    for folder in folders:
        for found in folder.glob("jars/ivy-*.jar"):
            return found
    raise MissingSoftwareError("PySpark is not installed; run `make setup`.")


def ivy_module(jars: Iterable[Jar]) -> str:
    """Return an ivy.xml that asks for just these files and nothing that they depend on."""
    dependencies = "\n".join(
        f"<dependency org={quoteattr(jar.group)} name={quoteattr(jar.artifact)} "
        f'rev={quoteattr(jar.version)} transitive="false" conf="default-&gt;*">'
        f'<artifact name={quoteattr(jar.artifact)} type="jar" ext="jar"{_classifier(jar)}/>'
        "</dependency>"
        for jar in jars
    )
    return f"""\
<ivy-module version="2.0" xmlns:m="http://ant.apache.org/ivy/maven">
<info organisation="aqueduct" module="jars"/>
<configurations><conf name="default"/></configurations>
<dependencies>
{dependencies}
<conflict manager="all"/>
</dependencies>
</ivy-module>
"""


def _classifier(jar: Jar) -> str:
    return f" m:classifier={quoteattr(jar.classifier)}" if jar.classifier else ""


def ivy_settings(cache: Path, mirror: str | None) -> str:
    """Return Ivy's settings: Maven's central repository or a mirror of it, no descriptors."""
    root = f" root={quoteattr(mirror)}" if mirror else ""
    return f"""\
<ivysettings>
<settings defaultResolver="central"/>
<caches defaultCacheDir={quoteattr(str(cache))}/>
<resolvers><ibiblio name="central" m2compatible="true" usepoms="false"{root}/></resolvers>
</ivysettings>
"""
