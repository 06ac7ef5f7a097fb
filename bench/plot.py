"""`python -m bench.plot`: a picture of the newest results for docs/performance.md.

Invariant: it draws the numbers in the files of results, medians of several runs, and computes
nothing else.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from html import escape
from math import ceil, log10
from pathlib import Path
from statistics import median
from typing import Any

from bench import session
from bench.errors import BenchError
from devstack.paths import PROJECT

PICTURE = PROJECT / "docs/performance.svg"
_WIDTH, _ROW, _LEFT, _RIGHT = 760, 22, 230, 90
_CURVE_HEIGHT = 200
_COLOURS = {"W1": "#2f6f9f", "W2": "#c8742b", "deep": "#2f6f9f", "wide": "#c8742b"}
_NAMES = {"deep": "1 table", "wide": "500 tables"}


@dataclass(frozen=True, slots=True)
class Bar:
    """One peer on one workload."""

    label: str
    workload: str
    value: float


def newest(folder: Path, name: str) -> dict[str, Any] | None:
    """The newest file of results with that name."""
    files = sorted(folder.glob(f"{name}-*.json"))
    return dict(json.loads(files[-1].read_text())) if files else None


def bars(results: Sequence[dict[str, Any]]) -> list[Bar]:
    """Rows per second of every peer on the counted workloads, as the median of its runs."""
    found: dict[tuple[str, str], list[float]] = {}
    for result in results:
        if result["workload"] in ("W1", "W2"):
            key = (result["peer"], result["workload"])
            found.setdefault(key, []).append(result["rows_per_second"])
    return [Bar(peer, workload, median(speeds)) for (peer, workload), speeds in found.items()]


def curves(results: Sequence[dict[str, Any]]) -> dict[str, list[tuple[int, float]]]:
    """CPU seconds per million rows, by depth."""
    found = {}
    for result in results:
        if result["workload"] in _NAMES:
            found[result["workload"]] = list(_slopes(result["curve"]))
    return found


def _slopes(curve: Sequence[tuple[float, int, float]]) -> Iterator[tuple[int, float]]:
    _, rows_before, cpu_before = curve[0]
    for _, rows, cpu in curve[1:]:
        # Smaller steps would show the resolution of the clock.
        if rows >= rows_before * 10**0.25 and rows - rows_before >= 20_000:
            yield rows, (cpu - cpu_before) * 1e6 / (rows - rows_before)
            rows_before, cpu_before = rows, cpu


def picture(speeds: Sequence[Bar], costs: dict[str, list[tuple[int, float]]]) -> str:
    """An SVG: bars of speeds, and below them the costs by depth."""
    top = 40 + _ROW * len(speeds)
    height = top + (_CURVE_HEIGHT + 60 if costs else 0)
    size = f'width="{_WIDTH}" height="{height}"'
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" {size} font-family="sans-serif" font-size="12">',
        f'<rect {size} fill="#ffffff"/>',
        _text(10, 20, "Row events a second, from MySQL's binlog to Kafka", bold=True),
        *_bars(speeds),
    ]
    if costs:
        parts.append(
            _text(10, top + 20, "CPU seconds for a million rows, by rows already read", bold=True)
        )
        parts += _curves(costs, top + 35)
    return "\n".join([*parts, "</svg>\n"])


def _bars(speeds: Sequence[Bar]) -> Iterator[str]:
    longest = max((bar.value for bar in speeds), default=1.0)
    for number, bar in enumerate(sorted(speeds, key=lambda bar: (bar.workload, -bar.value))):
        y = 32 + number * _ROW
        width = bar.value / longest * (_WIDTH - _LEFT - _RIGHT)
        yield _text(10, y + 14, f"{bar.workload}  {bar.label}")
        colour = _COLOURS[bar.workload]
        yield f'<rect x="{_LEFT}" y="{y}" width="{width:.0f}" height="16" fill="{colour}"/>'
        yield _text(_LEFT + round(width) + 6, y + 13, f"{bar.value:,.0f}")


def _curves(costs: dict[str, list[tuple[int, float]]], top: int) -> Iterator[str]:
    points = [point for line in costs.values() for point in line]
    highest = max((cost for _, cost in points), default=1.0) * 1.1
    deepest = max((rows for rows, _ in points), default=10**5)
    decades = (4, ceil(log10(deepest * 0.95)))  # a run ends slightly before its round number

    def position(rows: float, cost: float) -> tuple[float, float]:
        across = (log10(rows) - decades[0]) / (decades[1] - decades[0])
        return 60 + across * (_WIDTH - 160), top + _CURVE_HEIGHT * (1 - cost / highest)

    for power in range(decades[0], decades[1] + 1):
        x, y = position(10**power, 0)
        yield f'<line x1="{x:.0f}" y1="{top}" x2="{x:.0f}" y2="{y:.0f}" stroke="#dddddd"/>'
        yield _text(round(x) - 20, round(y) + 16, f"{10**power:,}")
    for share in (0, 0.5, 1):
        _, y = position(10 ** decades[0], share * highest)
        yield f'<line x1="60" y1="{y:.0f}" x2="{_WIDTH - 100}" y2="{y:.0f}" stroke="#dddddd"/>'
        yield _text(20, round(y) + 4, f"{share * highest:.0f}")
    dearest_first = sorted(costs.items(), key=lambda named: -named[1][-1][1] if named[1] else 0)
    for number, (name, line) in enumerate(dearest_first):
        shape = " ".join("{:.1f},{:.1f}".format(*position(rows, cost)) for rows, cost in line)
        colour = _COLOURS[name]
        yield f'<polyline points="{shape}" fill="none" stroke="{colour}" stroke-width="2"/>'
        if line:
            x, y = position(*line[-1])
            yield _text(round(x) + 6, round(y) - 4 + 18 * number, _NAMES[name])


def _text(x: int, y: int, text: str, *, bold: bool = False) -> str:
    weight = ' font-weight="bold"' if bold else ""
    return f'<text x="{x}" y="{y}" fill="#222222"{weight}>{escape(text)}</text>'


def main() -> None:
    """Draw the newest results."""
    speeds = newest(session.RESULTS, "bench")
    if speeds is None:
        raise BenchError(f"{session.RESULTS} has no results; run `make bench` first")
    costs = newest(session.RESULTS, "flat") or {"results": []}
    PICTURE.write_text(picture(bars(speeds["results"]), curves(costs["results"])))
    print(PICTURE)


if __name__ == "__main__":
    try:
        main()
    except BenchError as error:
        sys.exit(f"bench.plot: {error}")
