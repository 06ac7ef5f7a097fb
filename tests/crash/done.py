"""The message of a mutant once it has done wrong, for tests that wait for it.

Invariant: it is in the worker's log, even if Faust redirects what is printed.
"""

from __future__ import annotations

import sys

DONE = "mutant: it has done wrong"


def say_done() -> None:
    """Log it at once."""
    print(DONE, file=sys.__stderr__, flush=True)
