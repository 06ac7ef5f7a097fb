"""Aqueduct's worker. ``faust -A app worker`` finds the Faust app here.

Invariant: importing the package starts nothing and reads nothing; the app is built on first access.
"""

from __future__ import annotations

import gc
from typing import Any


def __getattr__(name: str) -> Any:
    if name == "app":
        # Imports leave no garbage, and searching for it takes a good part of a start.
        was_enabled = gc.isenabled()
        gc.disable()
        try:
            from app.worker.assembly import app_from_environment

            return app_from_environment()
        finally:
            gc.freeze()
            if was_enabled:
                gc.enable()
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
