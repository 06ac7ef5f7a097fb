"""What a mutant says once it has done wrong, for who waits for it.

The law: it stands in the worker's log, whatever Faust makes of what is printed.
"""

from __future__ import annotations

import sys

DONE = "mutant: it has done wrong"


def say_done() -> None:
    """Say it, at once."""
    print(DONE, file=sys.__stderr__, flush=True)
