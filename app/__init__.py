"""Aqueduct's worker. ``faust -A app worker`` finds the Faust app here.

The law: importing the package starts nothing and reads nothing; the app is built when it is asked for.
"""

from __future__ import annotations

from typing import Any


def __getattr__(name: str) -> Any:
    if name == "app":
        from app.worker import app_from_environment

        return app_from_environment()
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
