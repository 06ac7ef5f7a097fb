"""The table of outcomes of the faults with Debezium, beside those of our own worker.

Invariant: each row names its seed; a partial run changes its own rows and no other.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path

import orjson

from devstack.paths import PROJECT, RUNS
from tests.crash.peers.debezium import EXACTLY_ONCE, VARIANTS, VERSION, Variant
from tests.crash.peers.faults import FAULTS
from tests.crash.peers.run import PeerOutcome
from tests.crash.scenario import SCENARIOS

PAGE = PROJECT / "docs" / "reliability.md"
STORE = RUNS / "crash-peers.json"
BEGIN, END = "<!-- crash of peers: begin -->", "<!-- crash of peers: end -->"
_OURS = 6
"""Columns of our own table."""
_KINDS = ("lost", "repeated", "disordered")
_COLUMNS = "fault|our worker|Debezium|set for|by itself|lost|repeated|disordered|else|rows|seed"
_HEAD = (f"| {_COLUMNS.replace('|', ' | ')} |", "|---" * len(_COLUMNS.split("|")) + "|")


def summary(outcomes: Sequence[PeerOutcome], variant: Variant) -> str:
    """A summary of one variant's outcomes, in a line."""
    done = [one for one in outcomes if one.judged and one.variant == variant.name]
    lost, repeated, disordered = (sum(one.counts.get(kind, 0) for one in done) for kind in _KINDS)
    return (
        f"crash: Debezium, {variant.title}: faults={len(done)} "
        f"clean={sum(one.clean for one in done)} by-itself={sum(not one.helped for one in done)} "
        f"lost={lost} repeated={repeated} disordered={disordered}"
    )


def kept(path: Path = STORE) -> list[PeerOutcome]:
    """The recorded outcomes of existing faults."""
    stored = orjson.loads(path.read_bytes()) if path.exists() else []
    return [one for one in (PeerOutcome(**each) for each in stored) if one.name in FAULTS]


def keep(outcomes: Iterable[PeerOutcome], path: Path = STORE) -> None:
    """Replace earlier outcomes of the same faults."""
    by_name = {(one.name, one.variant): one for one in (*kept(path), *outcomes)}
    keys = [(name, variant) for name in FAULTS for variant in VARIANTS]
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(orjson.dumps([asdict(by_name[key]) for key in keys if key in by_name]))


def write(path: Path = STORE) -> str:
    """Put what is kept into the page, between its marks; the line that sums it up."""
    outcomes = kept(path)
    before, _, rest = PAGE.read_text().partition(BEGIN)
    _, _, after = rest.partition(END)
    text = table(outcomes, ours(before))
    PAGE.write_text(f"{before}{BEGIN}\n{text}{END}{after}")
    return summary(outcomes, EXACTLY_ONCE)


def ours(page: str) -> dict[str, str]:
    """By fault, what the page's table has of our own worker."""
    rows = [line.strip("| ").split(" | ") for line in page.splitlines() if line.startswith("| `")]
    found = {}
    for row in rows:
        if len(row) == _OURS and row[0].strip("`") in SCENARIOS:
            found[row[0].strip("`")] = row[2] if row[-1] == "nothing" else "**something wrong**"
    return found


def table(outcomes: Sequence[PeerOutcome], own: Mapping[str, str]) -> str:
    """The table as text, and a line for each variant above it."""
    seen = [one for one in VARIANTS.values() if any(out.variant == one.name for out in outcomes)]
    tried = {one.name for one in outcomes}
    missing = [f"`{name}`" for name in FAULTS if name not in tried]
    outside = [f"`{name}`" for name in SCENARIOS if name not in FAULTS]
    lines = [f"{VERSION}.", ""]
    lines += [f"* {one.name}: `{summary(outcomes, one)}`" for one in seen]
    lines += ["", *_HEAD, *(_row(one, own.get(one.name, "")) for one in outcomes)]
    if missing:
        lines += ["", f"Not tried in these runs: {', '.join(missing)}."]
    lines += [
        "",
        f"Not done to Debezium, most for no such part or point is in it: {', '.join(outside)}.",
    ]
    return "\n".join([*lines, ""])


def _row(one: PeerOutcome, own: str) -> str:
    begin = f"| `{one.name}` | {own}"
    if not one.judged:
        words = _short(one.how or "it did not end")
        return f"{begin} | not judged: {words} | {one.variant} | | | | | | | {one.seed} |"
    alone = f"no ({len(one.helped)}): {_short(one.helped[0])}" if one.helped else "yes"
    alone = "rightly not" if one.how.startswith("stopped") else alone
    counts = " | ".join(f"{one.counts.get(kind, 0):,}" for kind in _KINDS)
    others = {kind: n for kind, n in one.counts.items() if kind not in _KINDS}
    other = ", ".join(f"{kind} {n:,}" for kind, n in others.items()) or "nothing"
    return (
        f"{begin} | {_short(one.how)} | {one.variant} | {alone} | {counts} | {other} "
        f"| {one.rows:,} | {one.seed} |"
    )


def _short(text: str) -> str:
    first = text.strip().splitlines()[0].replace("|", "/")
    return re.sub(r"\w+\{.*\}", "...", first).strip()[:140]
