"""Fetch packages with the host's apt-get and leave the host's apt as it is.

Lists, cache and package status are private, so no rights are needed and nothing is installed.
apt checks the archive's signature and every package's hash, as it does for the host.
"""

import os
import re
import subprocess
from collections.abc import Sequence
from pathlib import Path

from devstack.errors import DownloadError, ToolError
from devstack.processes import Children
from devstack.sources import Source, parse_deb822, parse_one_line

_SOURCES = Path("/etc/apt")
# Programs that only administration scripts need; nothing a server runs.
_NOT_NEEDED = re.compile(r"(lib)?perl|debconf|adduser|passwd|lsb-base|sysvinit-utils|tzdata")


def host_sources(root: Path = _SOURCES) -> list[Source]:
    """Return the package sources that the host's apt reads."""
    found = []
    for path in (root / "sources.list", *sorted((root / "sources.list.d").glob("*"))):
        if path.suffix == ".sources":
            found += parse_deb822(path.read_text())
        elif path.suffix == ".list" and path.exists():
            found += parse_one_line(path.read_text())
    return found


class PrivateApt:
    """apt-get with its own lists, cache and (empty) package status below `folder`."""

    def __init__(self, folder: Path, sources: Sequence[Source], *, owner: Children) -> None:
        self._folder = folder
        self._owner = owner
        for name in ("lists/partial", "cache/archives/partial", "parts"):
            (folder / name).mkdir(parents=True, exist_ok=True)
        (folder / "status").touch()
        (folder / "host.sources").write_text("\n".join(source.deb822() for source in sources))
        (folder / "apt.conf").write_text(_host_settings() + _private_settings(folder))

    def update(self) -> None:
        """Fetch the lists of packages."""
        try:
            # Without this option an unreachable mirror is only a warning.
            self._apt("update", "-o", "APT::Update::Error-Mode=any")
        except ToolError as error:
            raise DownloadError(f"the package lists could not be fetched: {error}") from None

    def closure(self, packages: Sequence[str]) -> list[str] | None:
        """Return all that `packages` depend on, with them; None if they cannot be had."""
        try:
            plan = self._apt("install", "--simulate", "--yes", *packages)
        except ToolError:
            return None
        names = re.findall(r"^Inst (\S+)", plan, re.MULTILINE)
        return [name for name in names if not _NOT_NEEDED.match(name)]

    def download(self, packages: Sequence[str], folder: Path) -> list[Path]:
        """Fetch packages into `folder` and return their files."""
        folder.mkdir(parents=True, exist_ok=True)
        try:
            self._apt("download", *packages, cwd=folder)
        except ToolError as error:
            raise DownloadError(f"the packages could not be fetched: {error}") from None
        return sorted(folder.glob("*.deb"))

    def _apt(self, action: str, *arguments: str, cwd: Path | None = None) -> str:
        return self._owner.run(
            ["apt-get", "-q", action, *arguments],
            log=self._folder / f"{action}.log",
            env={
                "PATH": "/usr/sbin:/usr/bin:/sbin:/bin",
                "APT_CONFIG": str(self._folder / "apt.conf"),
                "LC_ALL": "C.UTF-8",
                **_proxies(),
            },
            cwd=cwd,
        )


def _proxies() -> dict[str, str]:
    return {name: v for name, v in os.environ.items() if name.lower().endswith("_proxy")}


def _host_settings() -> str:
    """Return how the host reaches its mirrors (proxies, timeouts), without its hooks."""
    dump = subprocess.run(["apt-config", "dump"], capture_output=True, text=True, check=True)
    kept = re.compile(r"Acquire::(?!IndexTargets|Languages|Changelogs|CompressionTypes)\S+ ")
    return "".join(f"{line}\n" for line in dump.stdout.splitlines() if kept.match(line))


def _private_settings(folder: Path) -> str:
    return f"""\
Dir::Etc::main "/dev/null";
Dir::Etc::parts "{folder}/parts";
Dir::Etc::preferences "/dev/null";
Dir::Etc::preferencesparts "{folder}/parts";
Dir::Etc::sourcelist "{folder}/host.sources";
Dir::Etc::sourceparts "{folder}/parts";
Dir::State "{folder}";
Dir::State::lists "{folder}/lists";
Dir::State::status "{folder}/status";
Dir::Cache "{folder}/cache";
Dir::Cache::archives "{folder}/cache/archives";
Acquire::Languages "none";
Acquire::PDiffs "false";
APT::Sandbox::User "";
APT::Install-Recommends "false";
"""
