"""Find a Java 17 or newer, or install one if permitted."""

import os
import re
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

from devstack.errors import MissingSoftwareError, ToolError
from devstack.paths import CACHE
from devstack.processes import Children
from devstack.progress import report_progress
from devstack.seal import one_at_a_time

_OLDEST = 17
_PACKAGES = tuple(f"openjdk-{version}-jre-headless" for version in (17, 21, 25))
_REMEDY = "install Java 17 or newer and put it on the PATH, or set JAVA_HOME."


def find_or_install(owner: Children, cache: Path = CACHE) -> str:
    """Return the path of a usable `java`; as root on Debian or Ubuntu, install it if need be."""
    with one_at_a_time(cache / "java.lock", owner):
        if found := find():
            return found
        if os.geteuid() or not shutil.which("apt-get"):
            raise MissingSoftwareError(f"no Java {_OLDEST} or newer was found; {_REMEDY}")
        _install(owner, log=cache / "java.log")
    if found := find():
        return found
    raise MissingSoftwareError(f"the installed Java cannot be found; {_REMEDY}")


def find() -> str | None:
    """Return the first `java` of JAVA_HOME and the PATH that is new enough."""
    home = os.environ.get("JAVA_HOME")
    for program in (f"{home}/bin/java" if home else None, shutil.which("java")):
        if program and (_version(program) or 0) >= _OLDEST:
            return program
    return None


def _version(program: str) -> int | None:
    try:
        shown = subprocess.run([program, "-version"], capture_output=True, text=True, check=False)
    except OSError:
        return None
    return parse_version(shown.stderr + shown.stdout)


def parse_version(text: str) -> int | None:
    """Read the major version from `java -version`: 17 from "17.0.15", 8 from "1.8.0_402"."""
    match = re.search(r'version "(?:1\.)?(\d+)', text)
    return int(match[1]) if match else None


def _install(owner: Children, *, log: Path) -> None:
    report_progress("java", "installing with apt-get")
    try:
        apt_install(owner, _PACKAGES, log=log)
    except ToolError as error:
        raise MissingSoftwareError(f"Java could not be installed ({error})\n{_REMEDY}") from None


def apt_install(owner: Children, packages: Sequence[str], *, log: Path) -> None:
    """Install, as root, the first of `packages` that the system's apt knows."""
    env = os.environ | {"DEBIAN_FRONTEND": "noninteractive", "LC_ALL": "C"}
    get = ["apt-get", "-q", "-o", "DPkg::Lock::Timeout=120"]
    with one_at_a_time(log.with_name("apt.lock"), owner):
        owner.run([*get, "update"], log=log, env=env)
        package = _available(owner, packages, env=env, log=log)
        owner.run([*get, "install", "-y", "--no-install-recommends", package], log=log, env=env)


def _available(
    owner: Children, packages: Sequence[str], *, env: Mapping[str, str], log: Path
) -> str:
    for package in packages:
        shown = owner.run(["apt-cache", "policy", package], log=log, env=env)
        if re.search(r"Candidate: \d", shown):
            return package
    raise MissingSoftwareError(f"apt knows none of {', '.join(packages)}; install one by hand.")
