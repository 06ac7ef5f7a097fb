"""``python -m tests.crash.impatient``: a worker whose Kafka transactions must be through sooner than others'.

Invariant: the product has no switch for it. It is the same worker but for this one time, so that a test
need not wait for a time-out of ten seconds.
"""

from __future__ import annotations

import importlib
import sys

from devstack.programs import ARGUMENTS

COMMAND = (sys.executable, "-m", "tests.crash.impatient")
SECONDS = 1.5


if __name__ == "__main__":
    from faust.cli.faust import cli

    # Before anything takes it from there.
    importlib.import_module("connectors.kafka.producer").ANSWER_TIMEOUT = SECONDS  # type: ignore[attr-defined]
    sys.argv = ["faust", *ARGUMENTS]
    cli()
