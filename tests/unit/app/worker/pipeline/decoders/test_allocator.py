"""A decoder keeps the memory of one portion for the next."""

from __future__ import annotations

import os
import platform
import subprocess
import sys

import pytest

_ROUNDS = """
import resource, sys
from app.worker.pipeline.decoders.child import keep_memory
if sys.argv[1] == "kept":
    assert keep_memory()
def portion():
    records = [bytes(900) for _ in range(8_000)]
    for _ in range(5):
        batch, compressed = bytearray(1 << 20), bytes(300_000)
portion()
before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
for _ in range(10):
    portion()
print(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
"""


def _page_faults(case: str) -> int:
    done = subprocess.run(
        [sys.executable, "-c", _ROUNDS, case],
        # glibc's value at a start, which rises if large blocks are freed.
        env={**os.environ, "MALLOC_TRIM_THRESHOLD_": "131072"},
        capture_output=True,
        text=True,
        check=True,
    )
    return int(done.stdout)


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="only glibc has these settings")
def test_the_memory_of_a_portion_is_used_again() -> None:
    assert _page_faults("default") > 1_000, "it would be used again anyway"
    assert _page_faults("kept") < 500


_SERVED = """
import socket
from app.worker.pipeline.decoders import child
child.keep_memory = lambda: print("kept")
child.Decoder.run = lambda _: None
child.serve(socket.socketpair()[0].detach())
"""


def test_a_decoder_sets_it_before_it_decodes() -> None:
    done = subprocess.run(
        [sys.executable, "-c", _SERVED], capture_output=True, text=True, check=True
    )
    assert done.stdout == "kept\n"
