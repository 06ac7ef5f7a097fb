"""The table of docs/reliability.md, and the last line, from what a run has shown."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from devstack.paths import PROJECT
from tests.crash.mutants import MUTANTS
from tests.crash.scenario import Outcome

PAGE = PROJECT / "docs" / "reliability.md"
BEGIN, END = "<!-- crash: begin -->", "<!-- crash: end -->"


def summary(outcomes: Sequence[Outcome], mutants: Mapping[str, str | None]) -> str:
    """The last line of a run."""
    done = [one for one in outcomes if not one.skipped]
    lost = sum(len(one.findings.get("lost", ())) for one in done)
    repeated = sum(len(one.findings.get("repeated", ())) for one in done)
    return (
        f"crash: faults={len(done)} survived={sum(one.survived for one in done)} "
        f"lost={lost} repeated={repeated} "
        f"mutants={len(mutants)} caught={sum(map(bool, mutants.values()))}"
    )


def write(outcomes: Sequence[Outcome], mutants: Mapping[str, str | None], *, seed: int) -> None:
    """Put the tables into the page, between its marks."""
    before, _, rest = PAGE.read_text().partition(BEGIN)
    _, _, after = rest.partition(END)
    PAGE.write_text(f"{before}{BEGIN}\n{tables(outcomes, mutants, seed=seed)}{END}{after}")


def tables(outcomes: Sequence[Outcome], mutants: Mapping[str, str | None], *, seed: int) -> str:
    """The tables as text."""
    lines = [
        f"Seed {seed}. `{summary(outcomes, mutants)}`",
        "",
        "| fault | what happens | outcome | changes | wrong |",
        "|---|---|---|---|---|",
        *(_row(one) for one in outcomes),
    ]
    if mutants:
        lines += ["", "| mutant | what is broken | seen by | found |", "|---|---|---|---|"]
        lines += [
            f"| `{name}` | {MUTANTS[name].what} | `{MUTANTS[name].scenario}` | "
            f"{_plain(kinds) if kinds else '**missed**'} |"
            for name, kinds in mutants.items()
        ]
    return "\n".join([*lines, ""])


def _row(one: Outcome) -> str:
    wrong = "not tried" if one.skipped else "none" if one.survived else "**yes**"
    return f"| `{one.name}` | {one.what} | {_plain(one.how)} | {one.changes:,} | {wrong} |"


def _plain(text: str) -> str:
    return text.splitlines()[0].replace("|", "/")[:200]
