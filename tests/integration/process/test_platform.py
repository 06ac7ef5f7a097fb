"""The demo of the platform, as an operator runs it: pushes, DDL, a stalled master and kills lose nothing."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = [
    pytest.mark.stack,
    pytest.mark.long(
        "the tests of mappings, shards, merges and subscribers have each of its parts"
    ),
]
PROJECT = Path(__file__).resolve().parents[3]
LAST_LINE = re.compile(r"platform: changes=(\d+) subscribers=3 lost=0 repeated=0 different=0")


def test_each_subscriber_gets_what_the_binlogs_state_under_the_mapping_in_force() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "demo.platform"],
        cwd=PROJECT,
        capture_output=True,
        text=True,
        check=False,
        timeout=1800,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    found = LAST_LINE.fullmatch(done.stdout.splitlines()[-1])
    assert found, done.stdout
    assert int(found[1]) > 3000
