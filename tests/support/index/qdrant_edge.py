"""Qdrant's own engine as a library, behind the part of its HTTP API that our engine uses.

python -m tests.support.index.qdrant_edge FOLDER PORT

For measuring, and for the contract suite (FORGE_TEST_QDRANT_URL), where no server can be installed: storage, graphs, filters
and distances are Qdrant's, compiled for release; only the HTTP around them is ours, and quantization and replicas are ignored.
It needs the package `qdrant-edge-py`. Collections lie in FOLDER and are there again after a restart.
"""

from __future__ import annotations

import asyncio
import json
import re
import shutil
import sys
from collections.abc import Callable, Mapping
from importlib.metadata import version
from pathlib import Path
from typing import Any

import qdrant_edge as edge

M, CONSTRUCTION = 16, 100
"""The server's own settings for a graph, as are the thresholds in KB below."""
FULL_SCAN_KB, INDEXING_KB = 10_000, 10_000
LINE = re.compile(rb"(\w+) ([^ ?]+)\S* HTTP/1\.1\r\n")
LENGTH = re.compile(rb"\r\ncontent-length: *(\d+)", re.IGNORECASE)


class Collection:
    """One shard with its graphs, which are built when somebody asks about it after a change.

    The library lets nothing else run in this process meanwhile, so the answer comes when they are built.
    """

    def __init__(self, folder: Path, vectors: Mapping[str, Any] | None = None) -> None:
        if vectors is None:
            self.shard = edge.EdgeShard.load(str(folder))
        else:
            folder.mkdir(parents=True)
            self.shard = edge.EdgeShard.create(str(folder), _config(vectors))
        self._changed = True
        self._indexed: dict[str, str] = {}

    def put(self, points: list[dict[str, Any]]) -> None:
        made = [edge.Point(point["id"], point["vector"], point["payload"]) for point in points]
        self._update(edge.UpdateOperation.upsert_points(made))

    def delete(self, numbers: list[Any]) -> None:
        self._update(edge.UpdateOperation.delete_points(numbers))

    def _update(self, operation: Any) -> None:
        self.shard.update(operation)
        self._changed = True

    def index(self, field: str, schema: Mapping[str, Any]) -> None:
        kinds: Mapping[str, Any] = {"integer": edge.IntegerIndexParams, "keyword": edge.KeywordIndexParams}
        options = {name: value for name, value in schema.items() if name != "type" and value is not None}
        self.shard.update(edge.UpdateOperation.create_field_index(field, kinds[schema["type"]](**options)))
        self._indexed[field] = schema["type"]

    def about(self) -> dict[str, object]:
        if self._changed:
            self.shard.optimize()
            self.shard.flush()
            self._changed = False
        graph = {"m": M, "ef_construct": CONSTRUCTION, "full_scan_threshold": FULL_SCAN_KB}
        optimizers = {"default_segment_number": 0, "flush_interval_sec": 5, "indexing_threshold": INDEXING_KB}
        return {
            "status": "green",
            "optimizer_status": "ok",
            "segments_count": self.shard.info().segments_count,
            "config": {"params": {}, "hnsw_config": graph, "optimizer_config": optimizers},
            "payload_schema": {field: {"data_type": kind, "points": 0} for field, kind in self._indexed.items()},
        }

    def query(self, asked: Mapping[str, Any]) -> list[dict[str, Any]]:
        found = self.shard.query(
            edge.QueryRequest(
                query=edge.Query.Nearest(asked["query"]["nearest"], using=asked["using"]),
                limit=asked["limit"],
                with_payload=True,
                filter=_filter(asked["filter"]) if asked.get("filter") else None,
                params=edge.SearchParams(hnsw_ef=asked["params"]["hnsw_ef"]),
            )
        )
        return [
            {"id": hit.id, "version": 0, "score": hit.score, "payload": {"doc": (hit.payload or {})["doc"]}}
            for hit in found
        ]


def _config(vectors: Mapping[str, Any]) -> Any:
    graph = edge.HnswIndexConfig(M, CONSTRUCTION, FULL_SCAN_KB)
    kinds = {
        name: edge.EdgeVectorParams(
            one["size"], edge.Distance.Cosine, datatype=edge.VectorStorageDatatype.Float16, hnsw_config=graph
        )
        for name, one in vectors.items()
    }
    optimizers = edge.EdgeOptimizersConfig(indexing_threshold=INDEXING_KB)
    return edge.EdgeConfig(vectors=kinds, hnsw_config=graph, optimizers=optimizers)


def _filter(asked: Mapping[str, Any]) -> Any:
    """Return the filter of a request: conditions that must all be met."""
    must: list[Any] = []
    for one in asked["must"]:
        match = one.get("match") or {}
        if "value" in match:
            must.append(edge.FieldCondition(one["key"], match=edge.MatchValue(match["value"])))
        elif "any" in match:
            must.append(edge.FieldCondition(one["key"], match=edge.MatchAny(match["any"])))
        else:
            bounds = {name: float(value) for name, value in one["range"].items() if value is not None}
            must.append(edge.FieldCondition(one["key"], range=edge.RangeFloat(**bounds)))
    return edge.Filter(must=must)


class Server:
    """All collections in a folder, and the requests for them. Searches are done one after the other."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._folder, self._names = folder, folder / "aliases.json"
        self._aliases: dict[str, str] = json.loads(self._names.read_text("utf-8")) if self._names.exists() else {}
        self._all = {one.name: Collection(one) for one in folder.iterdir() if one.is_dir()}

    def answer(self, method: str, path: str, body: Any) -> Any:  # noqa: C901 - a table of routes
        """Return the result of a request.

        Raises:
            LookupError: there is no such collection or route.
        """
        match method, path.strip("/").split("/"):
            case "GET", [""]:
                return {"title": "Qdrant Edge", "version": version("qdrant-edge-py")}
            case "GET", ["collections"]:
                return {"collections": [{"name": name} for name in self._all]}
            case "GET", ["aliases"]:
                pairs = self._aliases.items()
                return {"aliases": [{"alias_name": alias, "collection_name": name} for alias, name in pairs]}
            case "POST", ["collections", "aliases"]:
                return self._name(body["actions"])
            case "PUT", ["collections", name]:
                self._all[name] = Collection(self._folder / name, body["vectors"])
                return True
            case "DELETE", ["collections", name]:
                return self._drop(name)
            case "GET", ["collections", name, "exists"]:
                return {"exists": name in self._all}
            case "GET", ["collections", name]:
                return self._at(name).about()
            case "PUT", ["collections", name, "index"]:
                self._at(name).index(body["field_name"], body["field_schema"])
                return {"operation_id": 0, "status": "completed"}
            case method, ["collections", name, "points", *rest]:
                return self._points(self._at(name), method, rest, body)
        raise LookupError(path)

    def _points(self, of: Collection, method: str, rest: list[str], body: Any) -> Any:
        match method, rest:
            case "POST", ["query"]:
                return {"points": of.query(body)}
            case "PUT", []:
                of.put(body["points"])
            case "POST", []:
                found = of.shard.retrieve(body["ids"], with_payload=True, with_vector=False)
                return [{"id": one.id, "payload": one.payload} for one in found]
            case "POST", ["delete"]:
                of.delete(body["points"])
            case "POST", ["scroll"]:
                asked = edge.ScrollRequest(body.get("offset"), body["limit"], with_payload=True, with_vector=False)
                found, following = of.shard.scroll(asked)
                return {
                    "points": [{"id": one.id, "payload": one.payload} for one in found],
                    "next_page_offset": following,
                }
            case _:
                raise LookupError(rest)
        return {"operation_id": 0, "status": "completed"}

    def _at(self, name: str) -> Collection:
        return self._all[self._aliases.get(name, name)]

    def _name(self, actions: list[dict[str, Any]]) -> bool:
        for action in actions:
            if gone := action.get("delete_alias"):
                del self._aliases[gone["alias_name"]]
            if made := action.get("create_alias"):
                self._aliases[made["alias_name"]] = made["collection_name"]
        self._names.write_text(json.dumps(self._aliases), encoding="utf-8")
        return True

    def _drop(self, name: str) -> bool:
        there = self._all.pop(name, None)
        if there:
            there.shard.close()
            shutil.rmtree(self._folder / name)
        return there is not None


async def _serve(
    answer: Callable[[str, str, Any], Any], reading: asyncio.StreamReader, to: asyncio.StreamWriter
) -> None:
    """Answer the requests of one connection until it ends."""
    while True:
        try:
            head = await reading.readuntil(b"\r\n\r\n")
        except (asyncio.IncompleteReadError, ConnectionError):
            to.close()
            return
        length, line = LENGTH.search(head), LINE.match(head)
        assert line is not None
        body = await reading.readexactly(int(length[1]) if length else 0)
        try:
            result = answer(line[1].decode(), line[2].decode(), json.loads(body) if body else None)
            status, text = b"200 OK", {"result": result, "status": "ok", "time": 0}
            if line[2] == b"/":
                text = result
        except LookupError as error:
            status, text = b"404 Not Found", {"status": {"error": f"Not found: {error}"}, "time": 0}
        except ValueError as error:
            status, text = b"400 Bad Request", {"status": {"error": str(error)}, "time": 0}
        sent = json.dumps(text).encode()
        to.write(
            b"HTTP/1.1 %b\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n" % (status, len(sent)) + sent
        )


async def _main(folder: Path, port: int) -> None:
    server = Server(folder)

    async def connected(reading: asyncio.StreamReader, to: asyncio.StreamWriter) -> None:
        await _serve(server.answer, reading, to)

    listening = await asyncio.start_server(connected, "127.0.0.1", port)
    await listening.serve_forever()


if __name__ == "__main__":
    asyncio.run(_main(Path(sys.argv[1]), int(sys.argv[2])))
