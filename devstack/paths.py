"""The folders of the servers' software and data."""

from pathlib import Path

PROJECT = Path(__file__).resolve().parent.parent
CACHE = PROJECT / ".cache"
RUNS = PROJECT / ".run"
