"""The worker's HTTP server: /metrics, /health and /status, available from the start.

Invariant: it only reads. It is separate from Faust's server, which starts after recovery and shows
tables to anyone.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

import orjson
from aiohttp import web
from mode import Service

from app import metrics
from app.worker.process.library_logs import SERVICES
from connectors.errors import SettingsError

StatusSource = Callable[[], dict[str, Any]]


class HttpServer(Service):  # type: ignore[misc]  # mode has no types
    """Serves on one address while the worker runs; port 0 disables it."""

    logger = SERVICES

    def __init__(self, bind: str, port: int, status: StatusSource, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self._bind, self._port = bind, port
        self._status = status
        self._runner: web.AppRunner | None = None

    @property
    def url(self) -> str:
        """Return the URL at which it listens."""
        return f"http://{self._bind}:{self._port}"

    async def on_start(self) -> None:
        """Start listening."""
        if not self._port:
            return
        site_app = web.Application()
        site_app.add_routes(
            [
                web.get("/metrics", _metrics),
                web.get("/health", _health),
                web.get("/status", self._show_status),
            ]
        )
        self._runner = web.AppRunner(site_app, access_log=None)
        await self._runner.setup()
        try:
            await web.TCPSite(self._runner, self._bind, self._port).start()
        except OSError as error:
            raise SettingsError(
                f"http: {self._bind}:{self._port} cannot be listened on: {os.strerror(error.errno or 0)}",
                remedy="Choose another http.port, or end the process that has it (ss -ltnp).",
            ) from error

    async def on_stop(self) -> None:
        """Close every connection."""
        if self._runner is not None:
            await self._runner.cleanup()

    async def _show_status(self, _request: web.Request) -> web.Response:
        body = orjson.dumps(self._status(), option=orjson.OPT_INDENT_2)
        return web.Response(body=body, content_type="application/json")


async def _metrics(_request: web.Request) -> web.Response:
    return web.Response(
        body=metrics.exposition(),
        headers={"Content-Type": "text/plain; version=0.0.4; charset=utf-8"},
    )


async def _health(_request: web.Request) -> web.Response:
    return web.Response(text="ok\n")
