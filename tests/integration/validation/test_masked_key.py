"""Tables whose key is masked: what is planted is found by the masked key, while a writer changes rows and keys.

Nothing raw of a key is shown, nor written to Kafka.
"""

from __future__ import annotations

import json
from pathlib import Path
from subprocess import CompletedProcess
from typing import Any

import pytest

from devstack import Stack
from devstack.mysql import Mysql
from tests.harness.forked import run_command
from tests.harness.sql import run
from tests.harness.worker import running
from tests.integration.process.test_masking import CANARY, everything, leaks
from tests.integration.process.test_snapshot_masked import (
    ROWS,
    changing,
    key_file,
    masked,
    mysql,
    wanted_settings,
)
from tests.integration.validation.shop import unlogged
from tests.integration.validation.test_validate import findings, is_done

__all__ = ["mysql"]
QUIET = [f"{CANARY}-{name}" for name in ("changed", "extra", "Equal", "missing")]
"""Names that the writer does not use."""


def validated(folder: Path, *words: str, code: int) -> tuple[dict[str, Any], CompletedProcess[str]]:
    """The result of the table, and the whole output, without a trace of a raw name."""
    arguments = "validate", "shop", "shop.members", *words
    done = run_command(folder / "aqueduct.yaml", *arguments, "--format", "json")
    assert done.returncode == code, done.stdout + done.stderr
    assert leaks({"shown": (done.stdout + done.stderr).encode()}) == set()
    (one,) = json.loads(done.stdout)["tables"]
    return one, done


@pytest.mark.usefixtures("mysql")
def test_planted_differences_are_found_by_masked_keys_and_nothing_raw_is_shown(
    stack: Stack, mysql: Mysql, tmp_path: Path
) -> None:
    wanted = wanted_settings(stack, mysql, tmp_path)
    wanted["destinations"]["shop"]["snapshot"] = {"mode": "initial"}
    key_file(tmp_path, "k")
    changed, extra, equal, missing = QUIET
    rows = ", ".join(f"('{name}', 1, 1)" for name in (changed, extra, equal))
    with running(wanted, tmp_path) as worker, changing(mysql):
        run(mysql, f"INSERT INTO shop.members VALUES {rows}")
        worker.wait(is_done)
        one, _ = validated(tmp_path, code=0)
        assert (one["missing"], one["extra"], one["different"]) == (0, 0, 0)
        assert one["rows"] > ROWS / 2
        unlogged(
            mysql,
            f"UPDATE shop.members SET v = 2 WHERE name = '{changed}'",
            f"DELETE FROM shop.members WHERE name = '{extra}'",
            # Equal to the server, and two to a subscriber.
            f"UPDATE shop.members SET name = LOWER(name) WHERE name = '{equal}'",
            f"INSERT INTO shop.members VALUES ('{missing}', 1, 1)",
        )
        # A repair writes nothing, as its requests would have keys.
        one, done = validated(tmp_path, "--repair", code=1)
        assert findings(one) == [
            ("different", {"name": masked(changed), "no": 1}, ["v"]),
            *(("extra", {"name": one, "no": 1}, []) for one in sorted(map(masked, (equal, extra)))),
            *(
                ("missing", {"name": one, "no": 1}, [])
                for one in sorted(map(masked, (equal.lower(), missing)))
            ),
        ]
        assert len(one["notes"]) == 1
        assert "the key is masked" in one["notes"][0]
        assert "request(s)" not in done.stderr
        # What the note advises repairs it.
        words = "snapshot", "start", "shop", "shop.members", "--replace"
        asked = run_command(tmp_path / "aqueduct.yaml", *words)
        assert asked.returncode == 0, asked.stdout + asked.stderr
        worker.wait(is_done)
        one, _ = validated(tmp_path, code=0)
        assert one["notes"] == []
        assert worker.stop() == 0
    written = everything(stack, str(wanted["prefix"]))
    assert leaks(written) == set()
    journal = b"".join(text for name, text in written.items() if "journal" in name)
    assert journal.count(b"snapshot-request/") == 1
