"""The progress of the worker and the sink, read over HTTP as an operator would."""

import http.client
import json
import re
from dataclasses import dataclass

_GAUGE = re.compile(r"^aqueduct_sink_(?:applied|visible)_offset\{([^}]*)\} (\S+)$", re.MULTILINE)
_ROWS = re.compile(r"^aqueduct_sink_rows_total\{[^}]*\} (\S+)$", re.MULTILINE)
_LABEL = re.compile(r'(\w+)="([^"]*)"')
_TIMEOUT = 3.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Status:
    """The worker's report of one destination."""

    state: str
    error: str | None
    gtid_set: str
    seq: int


def worker_status(port: int, destination: str) -> Status | None:
    """Return the worker's progress; None while it does not answer or does not know the destination."""
    body = _get(port, "/status")
    if body is None:
        return None
    status = json.loads(body).get("destinations", {}).get(destination)
    if status is None:
        return None
    cursor = status.get("cursor") or {}
    return Status(
        state=status["state"],
        error=status.get("error"),
        gtid_set=cursor.get("gtid_set") or "",
        seq=cursor.get("seq") or 0,
    )


def sink_offsets(port: int) -> dict[tuple[str, int], int] | None:
    """Return the offset up to which readers see each partition; None while the sink does not answer."""
    body = _get(port, "/metrics")
    return None if body is None else visible_offsets(body)


def sink_rows(port: int) -> int | None:
    """Return the row changes that the sink has applied since its start; None while it does not answer."""
    body = _get(port, "/metrics")
    return None if body is None else sum(int(float(value)) for value in _ROWS.findall(body))


def visible_offsets(metrics: str) -> dict[tuple[str, int], int]:
    """The offsets that are merged or stored as recent changes, from Prometheus' text format."""
    offsets: dict[tuple[str, int], int] = {}
    for labels, value in _GAUGE.findall(metrics):
        label = dict(_LABEL.findall(labels))
        at = label["topic"], int(label["partition"])
        offsets[at] = max(int(float(value)), offsets.get(at, 0))
    return offsets


def _get(port: int, path: str) -> str | None:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=_TIMEOUT)
    try:
        connection.request("GET", path)
        response = connection.getresponse()
        body = response.read().decode()
    except (OSError, http.client.HTTPException):
        return None
    finally:
        connection.close()
    return body if response.status < 400 else None
