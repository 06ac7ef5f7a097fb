"""Each mutant breaks a guard that is there under its name: a run without a break would show nothing."""

from __future__ import annotations

import subprocess
import sys

_EACH_BROKEN = """
import os, traceback
from tests.crash import mutated, mutated_sink
for name, patch in (mutated.PATCHES | mutated_sink.PATCHES).items():
    child = os.fork()
    if not child:
        code = 1
        try:
            patch()
            code = 0
        except Exception:
            traceback.print_exc()
        finally:
            os._exit(code)
    if os.waitpid(child, 0)[1]:
        print(name)
"""


def test_all_guards_are_there() -> None:
    # Each in a process of its own, and all of them forked from one that has imported the worker.
    done = subprocess.run(
        [sys.executable, "-c", _EACH_BROKEN], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stdout) == (0, ""), done.stderr
