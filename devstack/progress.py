"""Progress messages for a person, as plain lines."""

import sys


def say(who: str, what: str) -> None:
    """Print one line of progress at once."""
    sys.stderr.write(f"{who}: {what}\n")
    sys.stderr.flush()
