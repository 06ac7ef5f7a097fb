"""The demo's progress and result, in plain lines."""

import time
from collections.abc import Sequence

from demo.parts import DATABASE, PREFIX, Addresses, Files
from demo.verdict import TableReport, Verdict

_HEADINGS = (
    "table",
    "rows in MySQL",
    "in warehouse",
    "changes",
    "lost",
    "duplicated",
    "different",
    "lag p50",
    "p99",
)


class Console:
    """Prints lines with the seconds since the start; progress only at intervals."""

    def __init__(self, *, every: float = 4.0) -> None:
        self._started = time.monotonic()
        self._every = every
        self._last = 0.0

    @property
    def seconds(self) -> float:
        """Since the start."""
        return time.monotonic() - self._started

    def print_line(self, text: str) -> None:
        """Print a line now."""
        self._last = self.seconds
        print(f"{self._last:6.1f} s  {text}", flush=True)

    @property
    def due(self) -> bool:
        """Whether another progress line is due."""
        return self.seconds - self._last >= self._every


def table(reports: Sequence[TableReport]) -> list[str]:
    """The tables' reports as aligned lines, the heading first."""
    cells = [_HEADINGS, *(_cells(report) for report in reports)]
    widths = [max(len(row[column]) for row in cells) for column in range(len(_HEADINGS))]
    return ["  ".join(_aligned(row, widths)).rstrip() for row in cells]


def conclusion(verdict: Verdict) -> list[str]:
    """The table, then each fault in full."""
    lines = ["", *table(verdict.tables), ""]
    if verdict.good:
        lines.append(
            "seq runs from 1 without a gap, no epoch goes back, no rolled-back row was published,"
            " and every row is equal."
        )
    return lines + [f"FAULT {fault}" for fault in verdict.faults]


def inspection_hints(files: Files, at: Addresses, *, kept: bool) -> list[str]:
    """The files to look at and, if the demo keeps running, its addresses."""
    hints = [
        f"logs       {files.folder}/*.log",
        f"settings   {files.worker_config}, {files.sink_config}",
        f"warehouse  {files.warehouse} (Delta); a table:",
        f"           .venv/bin/python -m spark_sink --config {files.sink_config} show {DATABASE}.orders",
    ]
    if not kept:
        return [*hints, "to look at all of it while it runs: make demo KEEP=1", ""]
    return [
        *hints,
        f"MySQL      mysql --host {at.mysql_host} --port {at.mysql_port} --user root {DATABASE}",
        f"Kafka      {at.kafka}, topics {PREFIX}.{DATABASE}.*",
        f"ZooKeeper  {at.zookeeper}",
        f"worker     http://127.0.0.1:{at.worker_http}/status",
        f"sink       http://127.0.0.1:{at.sink_http}/metrics",
        "all of it keeps running; to end it: make demo-stop",
        "",
    ]


def _cells(report: TableReport) -> tuple[str, ...]:
    return (
        report.name,
        f"{report.mysql_rows:,}",
        f"{report.warehouse_rows:,}",
        f"{report.changes:,}",
        f"{report.lost:,}",
        f"{report.duplicated:,}",
        f"{report.different:,}",
        _seconds(report.lag_p50),
        _seconds(report.lag_p99),
    )


def _seconds(value: float | None) -> str:
    return "-" if value is None else f"{value:.1f} s"


def _aligned(cells: Sequence[str], widths: Sequence[int]) -> list[str]:
    name, *numbers = (
        cell.ljust(width) if at == 0 else cell.rjust(width)
        for at, (cell, width) in enumerate(zip(cells, widths, strict=True))
    )
    return [name, *numbers]
