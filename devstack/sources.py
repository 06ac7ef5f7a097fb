"""The host's own apt sources, so that no mirror's address need be written down here.

Pure: text in, values out. Both forms of sources.list(5) are read: one line each, and deb822.
"""

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

# The deb822 names of one-line options, if not just capitalised.
_KEYS = {"arch": "Architectures", "signed-by": "Signed-By", "trusted": "Trusted"}
_KEPT = ("Signed-By", "Trusted", "Check-Valid-Until", "Check-Date")


@dataclass(frozen=True, slots=True)
class Source:
    """One archive of binary packages: its address, the parts used, and the key that signs it."""

    uris: tuple[str, ...]
    suites: tuple[str, ...]
    components: tuple[str, ...]
    options: tuple[tuple[str, str], ...] = ()

    def deb822(self) -> str:
        """Print the source as a stanza of a .sources file."""
        fields = [
            ("Types", "deb"),
            ("URIs", " ".join(self.uris)),
            ("Suites", " ".join(self.suites)),
            ("Components", " ".join(self.components)),
            *self.options,
        ]
        return "".join(f"{name}: {value}\n" for name, value in fields)


def parse_one_line(text: str) -> list[Source]:
    """Read `deb [option=value …] uri suite component…` lines; other types are skipped."""
    return [source for line in text.splitlines() if (source := _one_line(line))]


def _one_line(line: str) -> Source | None:
    match = re.match(r"deb\s+(?:\[([^]]*)\]\s*)?(.+)", line.partition("#")[0].strip())
    if not match:
        return None
    uri, suite, *components = match[2].split()
    pairs = (option.partition("=")[::2] for option in (match[1] or "").split())
    options = ((_KEYS.get(name.lower(), name.title()), value) for name, value in pairs)
    return Source((uri,), (suite,), tuple(components), _kept(options))


def parse_deb822(text: str) -> list[Source]:
    """Read the stanzas of a .sources file; disabled ones and source code are skipped."""
    return [
        Source(
            uris=tuple(stanza["uris"].split()),
            suites=tuple(stanza["suites"].split()),
            components=tuple(stanza.get("components", "").split()),
            options=_kept((name.title(), value) for name, value in stanza.items()),
        )
        for stanza in _stanzas(text)
        if "deb" in stanza.get("types", "").split() and stanza.get("enabled", "yes") != "no"
    ]


def _kept(options: Iterable[tuple[str, str]]) -> tuple[tuple[str, str], ...]:
    return tuple((name, value) for name, value in options if name in _KEPT)


def _stanzas(text: str) -> Iterator[dict[str, str]]:
    lines = [line for line in text.splitlines() if not line.startswith("#")]
    for block in re.split(r"\n\s*\n", "\n".join(lines)):
        # A continued line belongs to the field before it; a key may be given in full that way.
        fields = re.findall(r"^([^\s:]+):(.*(?:\n[ \t].*)*)", block, re.MULTILINE)
        if fields:
            yield {name.lower(): value.strip() for name, value in fields}


def of_suite(sources: Iterable[Source], suites: set[str]) -> list[Source]:
    """Return the sources of a release's main archive (not its security or backports)."""
    return [s for s in sources if suites & set(s.suites) and "main" in s.components]


def moved_to(source: Source, suite: str) -> Source:
    """Return the same mirror and key with another suite's main component."""
    return replace(source, suites=(suite,), components=("main",))
