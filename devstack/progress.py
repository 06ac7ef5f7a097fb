"""Progress messages for a terminal, as plain lines."""

import sys


def report_progress(part: str, text: str) -> None:
    """Print one line of progress at once."""
    sys.stderr.write(f"{part}: {text}\n")
    sys.stderr.flush()
