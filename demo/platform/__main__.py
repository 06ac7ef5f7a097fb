"""`python -m demo.platform`: the platform's demo from the first server to the verdict.

It exits 0 only if each group of subscribers and the warehouse got exactly what the sources' binlogs state under
the mapping in force at each transaction, and prints so in its last line.
"""

from __future__ import annotations

import contextlib
import os
import sys
from pathlib import Path

import pymysql
from aiokafka.errors import KafkaError

from demo import lifetime
from demo.errors import DemoError, Interrupted
from demo.lifetime import Signals
from demo.platform.story import RUN, Story
from devstack.errors import DevstackError

PROJECT = Path(__file__).resolve().parent.parent.parent
LOCK = Path(".run/platform.lock")


def main() -> int:
    """Run the demo; its exit code."""
    os.chdir(PROJECT)
    try:
        with lifetime.only_demo(LOCK), Signals() as signals, contextlib.ExitStack() as ending:
            try:
                return Story(ending).run()
            finally:
                signals.ignore()
    except Interrupted:
        print("platform: all that it started has ended", file=sys.stderr)
        return 130
    except (DemoError, DevstackError) as error:
        print(f"platform: failed: {error}", file=sys.stderr)
    except (pymysql.MySQLError, KafkaError, OSError) as error:
        what = f"{type(error).__name__}: {error}"
        print(f"platform: failed: {what}\n  what to do: read the logs in {RUN}", file=sys.stderr)
    return 1


if __name__ == "__main__":
    sys.exit(main())
