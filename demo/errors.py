"""What can go wrong in the demo, each as one message for a person: what, where, what to do."""

from pathlib import Path

_TAIL_LINES = 15
_TAIL_BYTES = 64 * 1024


class DemoError(Exception):
    """The demo could not go on."""

    def __init__(self, message: str = "") -> None:
        super().__init__(message or type(self).__doc__)


class PartFailed(DemoError):
    """One of the demo's parts failed; the message ends with the last lines of its log."""

    def __init__(self, what: str, *, log: Path, advice: str) -> None:
        super().__init__(f"{what}\n{_quoted_tail(log)}\n  its log: {log}\n  what to do: {advice}")


class Interrupted(KeyboardInterrupt):
    """Somebody wants the demo to end; nothing that retries on errors may swallow this."""


def _quoted_tail(log: Path) -> str:
    last = _tail(log)
    return "\n".join(f"  | {line}" for line in last) if last else "  | (the log is empty)"


def _tail(log: Path) -> list[str]:
    try:
        with log.open("rb") as file:
            file.seek(max(0, log.stat().st_size - _TAIL_BYTES))
            text = file.read().decode("utf-8", errors="replace")
    except FileNotFoundError:
        return []
    return text.splitlines()[-_TAIL_LINES:]
