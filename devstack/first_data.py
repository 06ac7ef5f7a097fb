"""Data directories of new servers: each kind is initialized once, and copied for every server of
it.

Initializing one takes a mysqld three seconds of a processor, copying it a tenth of one.

Invariant: a copy is one of a whole directory that no server has ever run on, of the same program
and of the same options, except for those that leave no trace in it.
"""

import hashlib
import json
import shutil
from collections.abc import Callable, Mapping
from pathlib import Path

from devstack.processes import Children
from devstack.seal import one_at_a_time

_WITHOUT_TRACE = {
    "bind_address",
    "binlog_format",
    "binlog_row_image",
    "binlog_row_metadata",
    "binlog_rows_query_log_events",
    "binlog_transaction_compression",
    "enforce_gtid_consistency",
    "gtid_mode",
    "innodb_buffer_pool_size",
    "innodb_flush_log_at_trx_commit",
    "innodb_flush_method",
    "log_bin",
    "max_allowed_packet",
    "max_binlog_size",
    "performance_schema",
    "secure_file_priv",
    "server_id",
    "skip_name_resolve",
    "sync_binlog",
}
_BLOCK = 1 << 16
_ZEROS = bytes(_BLOCK)


def key_of(program: Path, options: Mapping[str, str], initialize: tuple[str, ...]) -> str:
    """The name of the directory that this program makes with these options."""
    facts = program.stat()
    traces = {name: value for name, value in options.items() if name not in _WITHOUT_TRACE}
    made_by = [program.name, facts.st_size, facts.st_mtime_ns, traces, initialize]
    return hashlib.sha256(json.dumps(made_by, sort_keys=True).encode()).hexdigest()[:16]


def copy_to(
    target: Path, key: str, make: Callable[[Path], None], *, cache: Path, owner: Children
) -> None:
    """Copy the directory of this name to `target`; the first time `make` fills an empty folder."""
    kept = cache / "first-data" / key
    with one_at_a_time(kept.with_suffix(".lock"), owner):
        if not kept.exists():
            unfinished = kept.with_suffix(".partial")
            shutil.rmtree(unfinished, ignore_errors=True)
            unfinished.mkdir()
            make(unfinished)
            # Each server makes a UUID of its own.
            (unfinished / "auto.cnf").unlink(missing_ok=True)
            unfinished.rename(kept)
    shutil.copytree(kept, target, copy_function=_copied_without_zeros)


def _copied_without_zeros(source: str, target: str) -> None:
    """Copy a file; where it has zeros the copy has holes, which take neither time nor disk."""
    with Path(source).open("rb") as read, Path(target).open("wb") as written:
        while block := read.read(_BLOCK):
            if block == _ZEROS:
                written.seek(_BLOCK, 1)
            else:
                written.write(block)
        written.truncate(read.tell())
    shutil.copymode(source, target)
