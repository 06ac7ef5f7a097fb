"""The demo's errors, each as one message for an operator: what happened, where, what to do."""

import re
from pathlib import Path

_ERROR = re.compile(r"\b(ERROR|CRITICAL)\b")
_ERROR_LINES = 3
_TAIL_LINES = 10
_TAIL_BYTES = 64 * 1024


class DemoError(Exception):
    """The demo could not continue."""

    def __init__(self, message: str = "") -> None:
        super().__init__(message or type(self).__doc__)


class PartFailed(DemoError):
    """One of the demo's parts failed; the message ends with the last lines of its log."""

    def __init__(self, what: str, *, log: Path, advice: str) -> None:
        super().__init__(f"{what}\n{_quoted_tail(log)}\n  its log: {log}\n  what to do: {advice}")


class Interrupted(KeyboardInterrupt):
    """Somebody wants the demo to end; nothing that retries on errors may swallow this."""


def _quoted_tail(log: Path) -> str:
    lines = _with_errors(_last_lines(log))
    return "\n".join(f"  | {line}" for line in lines) if lines else "  | (the log is empty)"


def _with_errors(lines: list[str]) -> list[str]:
    """The last lines, after the last error lines that are not among them."""
    end = lines[-_TAIL_LINES:]
    errors = [line for line in lines[:-_TAIL_LINES] if _ERROR.search(line)]
    return [*errors[-_ERROR_LINES:], "…", *end] if errors else end


def _last_lines(log: Path) -> list[str]:
    try:
        with log.open("rb") as file:
            file.seek(max(0, log.stat().st_size - _TAIL_BYTES))
            text = file.read().decode("utf-8", errors="replace")
    except FileNotFoundError:
        return []
    return text.splitlines()
