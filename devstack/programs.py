"""The worker's command line, as an operator runs it: for demo, benchmarks and tests."""

import os
import sys
from pathlib import Path

ARGUMENTS = ("-A", "app", "worker", "-l", "info")
"""After the name of Faust's own command."""
WORKER = (str(Path(sys.executable).with_name("faust")), *ARGUMENTS)

_KEPT = "AQUEDUCT_SPARK_JARS"


def environment(**more: str) -> dict[str, str]:
    """This process's environment without the user's own settings of Aqueduct, and ``more``."""
    ours = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith("AQUEDUCT_") or name == _KEPT
    }
    return {**ours, **more}
