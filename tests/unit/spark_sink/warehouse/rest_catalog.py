"""A REST catalog of Iceberg on loopback, as far as the sink uses one.

Requests are carried out by Iceberg's own handlers, in Spark's JVM, on a Hadoop catalog; this is the HTTP
around them, as in Iceberg's REST specification (rest-catalog-open-api.yaml).
"""

from __future__ import annotations

import json
import re
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

from py4j.protocol import Py4JJavaError
from pyspark.sql import SparkSession

from spark_sink.java import java_class

_STATUS = {
    "NoSuchTableException": 404,
    "NoSuchNamespaceException": 404,
    "AlreadyExistsException": 409,
    "CommitFailedException": 409,
}
_TOKEN = "a-token"


class RestCatalog:
    """The catalog, which its tables' files are below `folder` of."""

    def __init__(self, spark: SparkSession, folder: Path) -> None:
        self.asked: Counter[str] = Counter()
        """The number of requests of each kind."""
        self._spark = spark
        self._jvm: Any = spark._jvm
        self._handlers = self._class("org.apache.iceberg.rest.CatalogHandlers")
        conf = spark._jsc.hadoopConfiguration()
        self._backend = self._class("org.apache.iceberg.hadoop.HadoopCatalog")(conf, str(folder))

    def answer(self, method: str, path: str, body: dict[str, Any]) -> tuple[int, Any]:
        """The status and body of the answer to a request."""
        parts = [unquote(part) for part in urlsplit(path).path.strip("/").split("/")][1:]
        kind = " ".join([method, *parts[::2]])
        self.asked[kind] += 1
        match kind, parts:
            case "GET config", _:
                return 200, {"defaults": {}, "overrides": {}}
            case "GET namespaces", [_]:
                found = self._backend.listNamespaces()
                return 200, {"namespaces": [[str(one.level(0))] for one in found]}
            case "POST namespaces", _:
                self._backend.createNamespace(self._namespace(*body["namespace"]))
                return 200, {"namespace": body["namespace"], "properties": {}}
            case (("GET namespaces" | "HEAD namespaces"), [_, name]):
                self._backend.loadNamespaceMetadata(self._namespace(name))
                return 200, {"namespace": [name], "properties": {}}
            case "GET namespaces tables", [_, name, _]:
                tables = self._backend.listTables(self._namespace(name))
                named = [{"namespace": [name], "name": str(one.name())} for one in tables]
                return 200, {"identifiers": named}
            case "POST namespaces tables", [_, name, _]:
                return 200, self._created(name, body)
            case (("GET namespaces tables" | "HEAD namespaces tables"), [_, *names]):
                return 200, self._loaded(self._handlers.loadTable, names)
            case "POST namespaces tables", [_, *names]:
                parser = self._class("org.apache.iceberg.rest.requests.UpdateTableRequestParser")
                request = parser.fromJson(json.dumps(body))
                return 200, self._loaded(self._handlers.updateTable, names, request)
            case "DELETE namespaces tables", [_, *names]:
                self._handlers.purgeTable(self._backend, self._identifier(names))
                return 204, None
        return (204, None) if parts[-1] == "metrics" else (406, None)

    def _created(self, namespace: str, body: dict[str, Any]) -> Any:
        builder = self._class("org.apache.iceberg.rest.requests.CreateTableRequest").builder()
        schema = self._class("org.apache.iceberg.SchemaParser").fromJson(json.dumps(body["schema"]))
        builder.withName(body["name"]).withSchema(schema).setProperties(body["properties"])
        if body.get("stage-create"):
            builder.stageCreate()
            create = self._handlers.stageTableCreate
        else:
            create = self._handlers.createTable
        return self._json(create(self._backend, self._namespace(namespace), builder.build()))

    def _loaded(self, act: Any, names: list[str], *more: Any) -> Any:
        return self._json(act(self._backend, self._identifier(names), *more))

    def _json(self, response: Any) -> Any:
        parser = self._class("org.apache.iceberg.rest.responses.LoadTableResponseParser")
        return json.loads(parser.toJson(response))

    def _identifier(self, names: list[str]) -> Any:
        kind = self._class("org.apache.iceberg.catalog.TableIdentifier")
        return kind.of(self._namespace(names[0]), names[-1])

    def _namespace(self, name: str) -> Any:
        string = self._class("java.lang.String")
        levels = self._spark.sparkContext._gateway.new_array(string, 1)  # type: ignore[union-attr]
        levels[0] = name
        return self._class("org.apache.iceberg.catalog.Namespace").of(levels)

    def _class(self, name: str) -> Any:
        return java_class(self._jvm, name)


@contextmanager
def served(catalog: RestCatalog) -> Iterator[dict[str, str]]:
    """Serves the catalog; yields the properties by which Iceberg reaches it."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def _handle(self) -> None:
            text = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            body: Any
            if self.headers.get("Authorization") != f"Bearer {_TOKEN}":
                status, body = 401, _error("not authorized", "NotAuthorizedException", 401)
            else:
                try:
                    status, body = catalog.answer(
                        self.command, self.path, json.loads(text or "null") or {}
                    )
                except Py4JJavaError as fault:
                    status, body = _failed(fault)
            self._send(status, body)

        def _send(self, status: int, body: Any) -> None:
            data = b"" if body is None or self.command == "HEAD" else json.dumps(body).encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        do_GET = do_HEAD = do_POST = do_DELETE = _handle  # noqa: N815 - the library's names

        def log_message(self, *_: Any) -> None:
            """Says nothing on stderr."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield {
            "type": "rest",
            "uri": f"http://127.0.0.1:{server.server_address[1]}",
            "token": _TOKEN,
        }
    finally:
        server.shutdown()
        server.server_close()


def _failed(fault: Py4JJavaError) -> tuple[int, Any]:
    text = str(fault.java_exception)
    found = re.match(r"[\w.]*?(\w+Exception)", text)
    name = found[1] if found else "ServerErrorException"
    status = _STATUS.get(name, 500)
    return status, _error(text, name, status)


def _error(message: str, kind: str, code: int) -> dict[str, Any]:
    return {"error": {"message": message, "type": kind, "code": code}}
