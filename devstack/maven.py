"""The address of Maven's central repository, from the user's own settings."""

from collections.abc import Mapping
from pathlib import Path
from urllib.parse import urlsplit
from xml.etree import ElementTree

_SETTINGS = Path(".m2/settings.xml")


def mirror(home: Path | None = None) -> str | None:
    """Return the address that ~/.m2/settings.xml gives for the central repository, if any."""
    path = (home or Path.home()) / _SETTINGS
    try:
        # The user's own file, which Maven itself trusts in the same way.
        root = ElementTree.fromstring(path.read_bytes())  # noqa: S314
    except (OSError, ElementTree.ParseError):
        return None
    for entry in root.iterfind("{*}mirrors/{*}mirror"):
        if covers_central(entry.findtext("{*}mirrorOf", "")):
            return entry.findtext("{*}url", "").strip() or None
    return None


def covers_central(mirror_of: str) -> bool:
    """Return whether a <mirrorOf> list such as `*,!other` includes the central repository."""
    names = {name.strip() for name in mirror_of.split(",")}
    return "!central" not in names and bool(names & {"*", "external:*", "central"})


def proxy_options(environment: Mapping[str, str]) -> list[str]:
    """Return Java's options for the proxies that curl and pip take from the environment."""
    options = []
    for scheme in ("http", "https"):
        name = f"{scheme}_proxy"
        proxy = urlsplit(environment.get(name) or environment.get(name.upper()) or "")
        if proxy.hostname:
            options += [
                f"-D{scheme}.proxyHost={proxy.hostname}",
                f"-D{scheme}.proxyPort={proxy.port or 80}",
            ]
    return options
