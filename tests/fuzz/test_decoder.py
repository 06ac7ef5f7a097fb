"""The decoder under mutated bytes: it ends, in the memory it was given, and each failure is our error."""

import subprocess
import sys
from pathlib import Path

import pytest

from connectors.mysql.stream.chunk import Chunk
from tests.fuzz.corpus_of import SERVERS, corpus_of
from tests.fuzz.targets import OWN, START, staged

ROOT = Path(__file__).parents[2]
SEED = 20261121
CASES = 2_000
"""A few for each kind of mutation; `make fuzz` has any number."""
LONGEST = 600


def test_mutated_bytes_are_refused_by_name_or_decoded_within_bounds() -> None:
    # A program of its own, since its memory is limited.
    command = [sys.executable, "-m", "tests.fuzz", "--seed", str(SEED), "--cases", str(CASES)]
    done = subprocess.run(
        command, cwd=ROOT, capture_output=True, text=True, timeout=LONGEST, check=False
    )
    assert done.returncode == 0, done.stdout[-8000:] + done.stderr[-2000:]


@pytest.mark.parametrize(
    ("server", "kinds"),
    [("mysql", {2, 16, 19, 29, 30, 31, 32, 33, 39, 40, 42}), ("mariadb", {160, 162, 165, 166, 167, 168})],
)  # fmt: skip
def test_the_corpus_holds_every_kind_of_event_that_a_decoder_meets(
    server: str, kinds: set[int]
) -> None:
    assert kinds <= {event[4] for event in corpus_of(server).events}


@pytest.mark.parametrize("server", SERVERS)
def test_what_was_not_mutated_is_accepted(server: str) -> None:
    corpus = corpus_of(server)
    events = [event for event in corpus.events if event[4] not in OWN]
    assert staged(corpus, [Chunk(start=START, data=b"".join(events), checksum=True)])
