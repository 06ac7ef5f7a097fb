"""mysql-replication, the most used Python library: decoding only, in a separate process, no Kafka.

Invariant: `python -m bench.peers.replication` decodes a workload's rows, discards them, and reports
the time from the first to the last.
"""

from __future__ import annotations

import json
import sys
import time
import warnings
from pathlib import Path
from typing import Any

from pymysqlreplication import BinLogStreamReader
from pymysqlreplication.row_event import DeleteRowsEvent, UpdateRowsEvent, WriteRowsEvent

from bench.errors import RunFailed
from bench.measure import Watch, busy_seconds, wait_until_quiet
from bench.peers.peer import Task
from bench.run import BROKER, MYSQLD, Result
from bench.servers import PASSWORD, USER
from bench.workloads import DATABASE
from devstack.processes import Child, tail

NAME = "mysql-replication, decode only"
_LONGEST = 900.0


def measure(task: Task) -> Result:
    """Decode a workload in a separate process."""
    task.folder.mkdir(parents=True)
    recipe, servers, log = task.workload.recipe, task.servers, task.folder / "replication.log"
    wanted = {
        "host": servers.mysql_host,
        "port": servers.mysql_port,
        "server_id": task.server_id,
        "file": task.workload.position.file,
        "tables": recipe.tables,
        "rows": recipe.rows,
        "answer": str(task.folder / "answer.json"),
    }
    quiet, began = wait_until_quiet(), time.monotonic()
    command = [sys.executable, "-m", "bench.peers.replication", json.dumps(wanted)]
    child = servers.children.start(command, label=NAME, log=log)
    roots = {
        "decode": child.identity.pid,
        MYSQLD: servers.mysqld.identity.pid,
        BROKER: servers.broker.identity.pid,
    }
    try:
        watch, cpu, others = _until_done(child, roots)
    finally:
        child.kill()
    if child.popen.returncode:
        raise RunFailed(f"{NAME}, {recipe.name}: it failed; from {log}:\n{tail(log)}")
    answer = json.loads(Path(str(wanted["answer"])).read_text())
    return Result(
        peer=NAME,
        workload=recipe.name,
        partitions=0,
        all_rows=recipe.rows,
        rows=answer["rows"],
        seconds=answer["seconds"],
        cpu={**cpu, "decode": answer["cpu"]},
        others=others,
        peak_mib=watch.peak_mib,
        startup_seconds=time.monotonic() - began - answer["seconds"],
        quiet=quiet,
    )


def _until_done(child: Child, roots: dict[str, int]) -> tuple[Watch, dict[str, float], float]:
    """Wait for its end; return the CPU seconds of each process, and of all others."""
    watch = Watch(roots, child="child")
    first, busy, deadline = watch.cpu(), busy_seconds(), time.monotonic() + _LONGEST
    while child.alive():
        watch.cpu()
        watch.sample_memory("decode")
        time.sleep(0.2)
        if time.monotonic() > deadline:
            raise RunFailed(f"{NAME}: not done after {_LONGEST:.0f} s")
    used = {name: seconds - first[name] for name, seconds in watch.cpu().items()}
    return watch, used, busy_seconds() - busy - sum(used.values())


def decode(wanted: dict[str, Any]) -> dict[str, float]:
    """Decode the wanted rows; return their number and the time."""
    warnings.simplefilter("ignore", DeprecationWarning)  # it uses PyMySQL's old names
    stream = BinLogStreamReader(
        connection_settings={
            "host": wanted["host"],
            "port": wanted["port"],
            "user": USER,
            "passwd": PASSWORD,
        },
        server_id=wanted["server_id"],
        log_file=wanted["file"],
        log_pos=4,
        resume_stream=True,
        blocking=True,
        only_events=[WriteRowsEvent, UpdateRowsEvent, DeleteRowsEvent],
        only_schemas=[DATABASE],
        only_tables=list(wanted["tables"]),
        use_column_name_cache=True,
    )
    rows, began, cpu = 0, 0.0, 0.0
    for event in stream:
        if not rows:
            began, cpu = time.monotonic(), time.process_time()
        rows += len(event.rows)
        if rows >= wanted["rows"]:
            break
    answer = {"rows": rows, "seconds": time.monotonic() - began, "cpu": time.process_time() - cpu}
    stream.close()
    return answer


if __name__ == "__main__":
    task_given = json.loads(sys.argv[1])
    Path(task_given["answer"]).write_text(json.dumps(decode(task_given)))
