"""Where the servers' software and data are kept."""

from pathlib import Path

PROJECT = Path(__file__).resolve().parent.parent
CACHE = PROJECT / ".cache"
RUNS = PROJECT / ".run"
