"""The report page with the outcome of each fault, and the last line, from recorded runs.

Invariant: each row names its seed; a partial run changes its own rows and no other.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import orjson

from devstack.paths import PROJECT, RUNS
from tests.crash.mutants import MUTANTS
from tests.crash.scenario import SCENARIOS, Outcome

PAGE = PROJECT / "docs" / "reliability.md"
STORE = RUNS / "crash.json"
BEGIN, END = "<!-- crash: begin -->", "<!-- crash: end -->"
_MUTANT_CELLS = 4

Mutants = Mapping[str, str | None]
"""By name, what was found in each; None where nothing was."""


def summary(outcomes: Sequence[Outcome], mutants: Mutants) -> str:
    """The last line of a run."""
    done = [one for one in outcomes if not one.skipped]
    lost = sum(len(one.findings.get("lost", ())) for one in done)
    repeated = sum(len(one.findings.get("repeated", ())) for one in done)
    return (
        f"crash: faults={len(done)} survived={sum(one.survived for one in done)} "
        f"lost={lost} repeated={repeated} "
        f"mutants={len(mutants)} caught={sum(map(bool, mutants.values()))}"
    )


def kept(path: Path = STORE) -> tuple[list[Outcome], dict[str, str | None]]:
    """What earlier pieces have shown of the faults and mutants that there still are: those of this checkout,
    else those of the page."""
    stored: dict[str, Any] = orjson.loads(path.read_bytes()) if path.exists() else described()
    found: dict[str, str | None] = stored.get("mutants", {})
    return (
        [
            Outcome(**{**one, "what": SCENARIOS[one["name"]].what})
            for one in stored.get("outcomes", ())
            if one["name"] in SCENARIOS
        ],
        {name: kinds for name, kinds in found.items() if name in MUTANTS},
    )


def keep(outcomes: Sequence[Outcome], mutants: Mutants, path: Path = STORE) -> None:
    """Replace earlier outcomes of the same faults."""
    before, found = kept(path)
    by_name = {one.name: one for one in (*before, *outcomes)}
    stored = {
        "outcomes": [asdict(by_name[name]) for name in SCENARIOS if name in by_name],
        "mutants": {**found, **mutants},
    }
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(orjson.dumps(stored))


def forget(path: Path = STORE) -> None:
    """Begin with an empty page."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(orjson.dumps({}))


def described(page: Path = PAGE) -> dict[str, Any]:
    """The content of the page, as it would be stored."""
    outcomes: list[dict[str, Any]] = []
    mutants: dict[str, str | None] = {}
    for line in page.read_text().partition(BEGIN)[2].partition(END)[0].splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if len(cells) < _MUTANT_CELLS or not cells[0].startswith("`"):
            continue
        name = cells[0].strip("`")
        if len(cells) == _MUTANT_CELLS:
            mutants[name] = None if "**" in cells[3] else cells[3]
            continue
        _, what, how, changes, seed, wrong = cells
        outcomes.append(
            asdict(
                Outcome(
                    name=name,
                    what=what,
                    seed=int(seed),
                    how=how,
                    survived=wrong != "**yes**",
                    skipped=wrong == "not tried",
                    changes=int(changes.replace(",", "")),
                )
            )
        )
    return {"outcomes": outcomes, "mutants": mutants}


def write(path: Path = STORE) -> str:
    """Put what is kept into the page, between its marks; the line that sums it up."""
    outcomes, mutants = kept(path)
    before, _, rest = PAGE.read_text().partition(BEGIN)
    _, _, after = rest.partition(END)
    PAGE.write_text(f"{before}{BEGIN}\n{tables(outcomes, mutants)}{END}{after}")
    return summary(outcomes, mutants)


def tables(outcomes: Sequence[Outcome], mutants: Mutants) -> str:
    """The tables as text."""
    lines = [
        f"`{summary(outcomes, mutants)}`",
        "",
        "| fault | what happens | outcome | rows | seed | wrong |",
        "|---|---|---|---|---|---|",
        *map(_row, outcomes),
        "",
        "| mutant | what is broken | scenario | the checker found |",
        "|---|---|---|---|",
    ]
    missing = [f"`{name}`" for name in SCENARIOS if name not in {one.name for one in outcomes}]
    lines += [
        f"| `{name}` | {MUTANTS[name].what} | {MUTANTS[name].scenario} | {kinds or '**nothing**'} |"
        for name, kinds in _in_order(mutants)
    ]
    if missing:
        lines += ["", f"Not tried in these runs: {', '.join(missing)}."]
    return "\n".join([*lines, ""])


def _in_order(mutants: Mutants) -> list[tuple[str, str | None]]:
    return [(name, mutants[name]) for name in MUTANTS if name in mutants]


def _row(one: Outcome) -> str:
    wrong = "not tried" if one.skipped else "nothing" if one.survived else "**yes**"
    how = one.how.splitlines()[0].replace("|", "/")[:160]
    return f"| `{one.name}` | {one.what} | {how} | {one.changes:,} | {one.seed} | {wrong} |"
