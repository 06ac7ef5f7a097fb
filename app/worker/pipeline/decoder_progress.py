"""The report of a decoder that it waits for another program, and so is neither stalled nor busy.

Invariant: a decoder's process sets one function for reports, before its first portion; in any other process a
report has no effect.
"""

from __future__ import annotations

from collections.abc import Callable

_reports: list[Callable[[], None]] = []


def on_progress(report: Callable[[], None]) -> None:
    """Set the function that each report in this process calls."""
    _reports[:] = [report]


def report_progress() -> None:
    """Report that the decoder is at work, though no piece is finished; each wait has a limit of its own."""
    for report in _reports:
        report()
