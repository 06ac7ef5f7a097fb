"""Tell a person what is being done, as plain lines."""

import sys


def say(who: str, what: str) -> None:
    """Print one line of progress at once."""
    sys.stderr.write(f"{who}: {what}\n")
    sys.stderr.flush()
