"""A Meilisearch for tests: the documented HTTP API on loopback, as strict as the real server, without its speed.

Writes are tasks, done one after the other by another thread, so nothing is visible yet when a request returns. Anything
that the API doesn't document (a field, a setting, an operator, a route) is refused as the real server refuses it.

Source: https://www.meilisearch.com/docs/reference/api, and what Meilisearch 1.50 answers.
"""

from __future__ import annotations

import json
import re
import socket
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlsplit

from tests.doubles.meilisearch_filter import BadFilter, parsed
from tests.doubles.meilisearch_words import matched

MOST_BYTES = 100 * 1024 * 1024
SETTINGS: dict[str, Any] = {
    "displayedAttributes": ["*"],
    "searchableAttributes": ["*"],
    "filterableAttributes": [],
    "sortableAttributes": [],
    "foreignKeys": [],
    "rankingRules": ["words", "typo", "proximity", "attributeRank", "sort", "wordPosition", "exactness"],
    "stopWords": [],
    "nonSeparatorTokens": [],
    "separatorTokens": [],
    "dictionary": [],
    "synonyms": {},
    "distinctAttribute": None,
    "proximityPrecision": "byWord",
    "typoTolerance": {
        "enabled": True,
        "minWordSizeForTypos": {"oneTypo": 5, "twoTypos": 9},
        "disableOnWords": [],
        "disableOnAttributes": [],
        "disableOnNumbers": False,
    },
    "faceting": {"maxValuesPerFacet": 100, "sortFacetValuesBy": {"*": "alpha"}},
    "pagination": {"maxTotalHits": 1000},
    "embedders": {},
    "searchCutoffMs": None,
    "localizedAttributes": None,
    "facetSearch": True,
    "prefixSearch": "indexingTime",
    "chat": {},
}
RULES = frozenset({*SETTINGS["rankingRules"], "attribute"})
SEARCH_FIELDS = frozenset(
    re.findall(
        r"\w+",
        """indexUid q offset limit page hitsPerPage attributesToRetrieve attributesToCrop cropLength cropMarker
        attributesToHighlight highlightPreTag highlightPostTag showMatchesPosition filter sort distinct facets
        matchingStrategy attributesToSearchOn rankingScoreThreshold locales hybrid vector retrieveVectors media
        personalize useNetwork showRankingScore showRankingScoreDetails showPerformanceDetails federationOptions""",
    )
)
DONE_HERE = frozenset(
    {"indexUid", "q", "offset", "limit", "attributesToRetrieve", "filter", "matchingStrategy", "showRankingScore"}
)


class Refused(Exception):
    """The request is answered with an error of this status, code and message."""

    def __init__(self, status: int, code: str, message: str, kind: str = "invalid_request") -> None:
        self.status, self.code, self.message, self.kind = status, code, message, kind
        super().__init__(message)

    def body(self) -> dict[str, str]:
        link = f"https://docs.meilisearch.com/errors#{self.code}"
        return {"message": self.message, "code": self.code, "type": self.kind, "link": link}


def no_index(uid: str) -> Refused:
    return Refused(404, "index_not_found", f"Index `{uid}` not found.")


@dataclass
class _Index:
    primary_key: str | None = None
    settings: dict[str, Any] = field(default_factory=lambda: json.loads(json.dumps(SETTINGS)))
    documents: dict[str, dict[str, Any]] = field(default_factory=dict)

    @property
    def filterable(self) -> dict[str, bool]:
        """Return the attributes that filters may name, and whether also with `>` and the like."""
        found: dict[str, bool] = {}
        for rule in self.settings["filterableAttributes"]:
            if isinstance(rule, str):
                found[rule] = True
            else:
                compared = rule.get("features", {}).get("filter", {}).get("comparison", False)
                found |= dict.fromkeys(rule["attributePatterns"], compared)
        return found


class Store:
    """The data that survives a restart of the server: indexes, and tasks that are waiting or done."""

    def __init__(self) -> None:
        self.indexes: dict[str, _Index] = {}
        self.tasks: list[dict[str, Any]] = []
        self.work: list[Callable[[], None]] = []
        self.changing = threading.Condition(threading.RLock())
        self.held = False

    def enqueue(self, kind: str, indexes: list[str], work: Callable[[], None]) -> dict[str, Any]:
        with self.changing:
            uid = indexes[0] if kind != "indexSwap" else None
            task: dict[str, Any] = {
                "uid": len(self.tasks),
                "indexUid": uid,
                "status": "enqueued",
                "type": kind,
                "error": None,
            }
            task |= {"enqueuedAt": _now(), "startedAt": None, "finishedAt": None, "of": indexes}
            self.tasks.append(task)
            self.work.append(work)
            self.changing.notify_all()
            return {"taskUid": task["uid"]} | {key: task[key] for key in ("indexUid", "status", "type", "enqueuedAt")}

    def run(self, stopping: threading.Event) -> None:
        """Do the tasks in their order, until the server stops."""
        while True:
            with self.changing:
                done = sum(task["status"] in ("succeeded", "failed") for task in self.tasks)
                if stopping.is_set():
                    return
                if self.held or done == len(self.tasks):
                    self.changing.wait(0.2)
                    continue
                task = self.tasks[done]
                task |= {"status": "processing", "startedAt": _now()}
                try:
                    self.work[done]()
                    task["status"] = "succeeded"
                except Refused as error:
                    task |= {"status": "failed", "error": error.body()}
                task["finishedAt"] = _now()

    # --- what tasks do ------------------------------------------------------------------------------------------------

    def at(self, uid: str) -> _Index:
        if uid not in self.indexes:
            raise no_index(uid)
        return self.indexes[uid]

    def configure(self, uid: str, settings: Mapping[str, Any]) -> None:
        index = self.indexes.setdefault(uid, _Index())
        for name, value in settings.items():
            merged = {**index.settings[name], **value} if isinstance(value, dict) else value
            index.settings[name] = SETTINGS[name] if value is None else merged

    def add(self, uid: str, primary_key: str | None, documents: list[dict[str, Any]]) -> None:
        index = self.indexes.setdefault(uid, _Index())
        if index.primary_key and primary_key and index.primary_key != primary_key:
            message = f"Index `{uid}`: Index already has a primary key: `{index.primary_key}`."
            raise Refused(400, "index_primary_key_already_exists", message)
        key = index.primary_key or primary_key
        if key is None:
            raise Refused(400, "index_primary_key_no_candidate_found", "The primary key inference failed.")
        for one in documents:
            value = one.get(key)
            if value is None:
                raise Refused(400, "missing_document_id", f"Index `{uid}`: Document doesn't have a `{key}` attribute.")
            if not re.fullmatch(r"[A-Za-z0-9_-]{1,511}", str(value)) or isinstance(value, bool | float):
                raise Refused(400, "invalid_document_id", f"Index `{uid}`: Document identifier `{value}` is invalid.")
        index.primary_key = key
        index.documents |= {str(one[key]): one for one in documents}

    def delete(self, uid: str, expression: str) -> None:
        index = self.at(uid)
        try:
            admits = parsed(expression, index.filterable)
        except BadFilter as error:
            raise Refused(400, "invalid_document_filter", f"Index `{uid}`: {error}") from error
        index.documents = {key: one for key, one in index.documents.items() if not admits(one)}

    def remove(self, uid: str, keys: list[int | str]) -> None:
        index = self.at(uid)
        for key in keys:
            index.documents.pop(str(key), None)

    def drop(self, uid: str) -> None:
        self.at(uid)
        del self.indexes[uid]

    def swap(self, pairs: list[tuple[str, str, bool]]) -> None:
        for one, other, rename in pairs:
            if rename and other in self.indexes:
                raise Refused(409, "index_already_exists", f"Index `{other}` already exists.")
            for uid in (one,) if rename else (one, other):
                self.at(uid)
        for one, other, rename in pairs:
            if rename:
                self.indexes[other] = self.indexes.pop(one)
            else:
                self.indexes[one], self.indexes[other] = self.indexes[other], self.indexes[one]

    # --- searching ----------------------------------------------------------------------------------------------------

    def search(self, query: Mapping[str, Any]) -> dict[str, Any]:
        index = self.at(query["indexUid"])
        attributes = index.settings["searchableAttributes"]
        try:
            admits = parsed(query["filter"], index.filterable) if query.get("filter") else None
        except BadFilter as error:
            raise Refused(400, "invalid_search_filter", f"Index `{query['indexUid']}`: {error}") from error
        scored = [
            (score, number, one)
            for number, one in enumerate(index.documents.values())
            if (admits is None or admits(one))
            and (score := matched(query.get("q", ""), query.get("matchingStrategy", "last"), one, attributes))
            is not None
        ]
        scored.sort(key=lambda found: (-found[0], found[1]))
        most = index.settings["pagination"]["maxTotalHits"]
        offset, limit = query.get("offset", 0), query.get("limit", 20)
        shown = scored[: min(most, offset + limit)][offset:]
        keys = query.get("attributesToRetrieve", ["*"])
        hits = [
            {key: value for key, value in one.items() if "*" in keys or key in keys}
            | ({"_rankingScore": score} if query.get("showRankingScore") else {})
            for score, _, one in shown
        ]
        return {"indexUid": query["indexUid"], "hits": hits, "query": query.get("q", ""), "processingTimeMs": 0} | {
            "limit": limit,
            "offset": offset,
            "estimatedTotalHits": min(len(scored), most),
        }


class MeilisearchDouble:
    """The server. It can be stopped and started again at the same address, with its data."""

    def __init__(self, key: str | None) -> None:
        self.key, self.store = key, Store()
        self.port = 0
        self.requests: list[str] = []
        self.refusing: list[int] = []
        """Statuses with which the next requests are refused."""
        self.most_bytes = MOST_BYTES
        self.open: set[socket.socket] = set()
        self.start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def start(self) -> None:
        self._stopping = threading.Event()
        self._server = _Server(("127.0.0.1", self.port), _handler(self))
        self.port = int(self._server.server_address[1])
        self._threads = [
            threading.Thread(target=self._server.serve_forever, args=(0.02,)),
            threading.Thread(target=self.store.run, args=(self._stopping,)),
        ]
        for thread in self._threads:
            thread.start()

    def stop(self) -> None:
        """Close all connections, between two tasks."""
        self._stopping.set()
        with self.store.changing:
            self.store.changing.notify_all()
        self._server.shutdown()
        for one in list(self.open):
            one.close() if one.fileno() < 0 else one.shutdown(socket.SHUT_RDWR)
        self._server.server_close()
        for thread in self._threads:
            thread.join()

    def hold(self, *, held: bool) -> None:
        """Pause the tasks, or continue them."""
        with self.store.changing:
            self.store.held = held
            self.store.changing.notify_all()


@contextmanager
def serving(key: str | None = None) -> Iterator[MeilisearchDouble]:
    """Run a double during the block."""
    double = MeilisearchDouble(key)
    try:
        yield double
    finally:
        double.stop()


class _Server(ThreadingHTTPServer):
    daemon_threads = False


def _now() -> str:
    return datetime.now(UTC).isoformat().replace("+00:00", "Z")


def _handler(double: MeilisearchDouble) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        disable_nagle_algorithm = True

        def setup(self) -> None:
            super().setup()
            double.open.add(self.connection)

        def finish(self) -> None:
            double.open.discard(self.connection)
            super().finish()

        def log_message(self, *_: object) -> None:
            """Say nothing."""

        def _serve(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            try:
                status, answer = _Request(double, self.command, self.path, dict(self.headers.items()), body).answer()
            except Refused as error:
                status, answer = error.status, error.body()
            text = b"" if answer is None else json.dumps(answer).encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(text)))
            self.end_headers()
            self.wfile.write(text)

        def handle(self) -> None:
            try:
                super().handle()
            except OSError:
                self.close_connection = True  # the client, or `stop`, has hung up

        do_GET = do_POST = do_PUT = do_PATCH = do_DELETE = _serve  # noqa: N815 - the names the standard library calls

    return Handler


@dataclass
class _Request:
    double: MeilisearchDouble
    method: str
    target: str
    headers: dict[str, str]
    body: bytes

    def answer(self) -> tuple[int, Any]:  # noqa: C901 - a table of routes
        parts = urlsplit(self.target)
        path = parts.path.strip("/").split("/")
        self.query = {key: values[-1] for key, values in parse_qs(parts.query, keep_blank_values=True).items()}
        self.double.requests.append(f"{self.method} {parts.path}")
        if self.double.refusing:
            raise Refused(self.double.refusing.pop(0), "too_many_search_requests", "Too many search requests", "system")
        if path == ["health"]:
            return 200, {"status": "available"}
        self._authorised()
        if len(self.body) > self.double.most_bytes:
            message = f"The provided payload reached the size limit of {self.double.most_bytes} bytes."
            raise Refused(413, "payload_too_large", message)
        with self.double.store.changing:
            match self.method, path:
                case "GET", ["version"]:
                    return 200, {"commitSha": "double", "commitDate": _now(), "pkgVersion": "1.50.0"}
                case "GET", ["tasks"]:
                    return 200, self._tasks()
                case "GET", ["tasks", uid]:
                    return 200, self._task(uid)
                case "POST", ["multi-search"]:
                    return 200, self._searched()
                case "POST", ["swap-indexes"]:
                    return 202, self._swap()
                case "GET", ["indexes"]:
                    return 200, self._indexes()
                case _, ["indexes", uid, *rest] if re.fullmatch(r"[A-Za-z0-9_-]{1,512}", uid):
                    return self._index(uid, rest)
        raise Refused(404, "not_found", f"no route {self.target}")

    def _authorised(self) -> None:
        if self.double.key is None:
            return
        given = self.headers.get("Authorization", "")
        if not given.startswith("Bearer "):
            message = "The Authorization header is missing. It must use the bearer authorization method."
            raise Refused(401, "missing_authorization_header", message, "auth")
        if given != f"Bearer {self.double.key}":
            raise Refused(403, "invalid_api_key", "The provided API key is invalid.", "auth")

    def _json(self, *content_types: str) -> Any:
        accepted = content_types or ("application/json",)
        found = self.headers.get("Content-Type")
        if found not in accepted:
            code = "missing_content_type" if found is None else "invalid_content_type"
            raise Refused(415, code, f"The Content-Type `{found}` is invalid. Accepted values: {accepted}")
        try:
            if found == "application/x-ndjson":
                return [json.loads(line) for line in self.body.split(b"\n") if line.strip()]
            return json.loads(self.body)
        except ValueError as error:
            raise Refused(400, "malformed_payload", "The payload provided is malformed.") from error

    def _only(self, given: Mapping[str, Any], known: frozenset[str], where: str = "") -> None:
        for name in given:
            if name not in known:
                raise Refused(400, "bad_request", f"Unknown field `{name}`{where}: expected one of {sorted(known)}")

    # --- routes -------------------------------------------------------------------------------------------------------

    def _tasks(self) -> dict[str, Any]:
        self._only(self.query, frozenset({"limit", "from", "uids", "statuses", "types", "indexUids", "reverse"}))
        indexes = set(filter(None, self.query.get("indexUids", "").split(",")))
        statuses = set(filter(None, self.query.get("statuses", "").split(",")))
        if not statuses <= {"enqueued", "processing", "succeeded", "failed", "canceled"}:
            raise Refused(400, "invalid_task_statuses", f"Invalid value in parameter `statuses`: {statuses}")
        found = [
            _shown(task)
            for task in reversed(self.double.store.tasks)
            if (not indexes or indexes & set(task["of"])) and (not statuses or task["status"] in statuses)
        ]
        limit = int(self.query.get("limit", 20))
        return {"results": found[:limit], "total": len(found), "limit": limit, "from": None, "next": None}

    def _task(self, uid: str) -> dict[str, Any]:
        if not uid.isdigit() or int(uid) >= len(self.double.store.tasks):
            raise Refused(404, "task_not_found", f"Task `{uid}` not found.")
        return _shown(self.double.store.tasks[int(uid)])

    def _indexes(self) -> dict[str, Any]:
        self._only(self.query, frozenset({"offset", "limit"}))
        offset, limit = int(self.query.get("offset", 0)), int(self.query.get("limit", 20))
        uids = sorted(self.double.store.indexes)
        results = [{"uid": uid, "primaryKey": self.double.store.indexes[uid].primary_key} for uid in uids]
        return {"results": results[offset : offset + limit], "offset": offset, "limit": limit, "total": len(uids)}

    def _searched(self) -> dict[str, Any]:
        body = self._json()
        self._only(body, frozenset({"queries", "federation"}))
        results = []
        for number, query in enumerate(body["queries"]):
            where = f" inside `.queries[{number}]`"
            self._only(query, SEARCH_FIELDS, where)
            if undone := query.keys() - DONE_HERE:
                raise AssertionError(f"the double does not do {undone}")
            if query.get("matchingStrategy", "last") not in ("last", "all", "frequency"):
                raise Refused(400, "invalid_search_matching_strategy", f"Unknown value{where}")
            if not isinstance(query.get("limit", 20), int) or query.get("limit", 20) < 0:
                raise Refused(400, "invalid_search_limit", f"Invalid value type{where}")
            try:
                results.append(self.double.store.search(query))
            except Refused as error:
                error.message = f"Inside `.queries[{number}]`: {error.message}"
                raise
        return {"results": results}

    def _swap(self) -> dict[str, Any]:
        pairs: list[tuple[str, str, bool]] = []
        for one in self._json():
            self._only(one, frozenset({"indexes", "rename"}))
            if len(one["indexes"]) != 2:
                raise Refused(400, "invalid_swap_indexes", "Two indexes must be given for each swap.")
            pairs.append((*one["indexes"], one.get("rename", False)))
        names = [name for *both, _ in pairs for name in both]
        if len(set(names)) < len(names):
            raise Refused(400, "invalid_swap_duplicate_index_found", "Indexes must be declared only once")
        return self.double.store.enqueue(
            "indexSwap", [str(name) for name in names], lambda: self.double.store.swap(pairs)
        )

    def _index(self, uid: str, rest: list[str]) -> tuple[int, Any]:  # noqa: C901 - a table of routes
        store = self.double.store
        match self.method, rest:
            case "DELETE", []:
                return 202, store.enqueue("indexDeletion", [uid], lambda: store.drop(uid))
            case "GET", ["settings"]:
                return 200, store.at(uid).settings
            case "PATCH", ["settings"]:
                settings = self._json()
                self._only(settings, frozenset(SETTINGS))
                _check_settings(settings)
                return 202, store.enqueue("settingsUpdate", [uid], lambda: store.configure(uid, settings))
            case "GET", ["documents", name]:
                found = store.at(uid).documents.get(name)
                if found is None:
                    raise Refused(404, "document_not_found", f"Document `{name}` not found.")
                return 200, found
            case "POST", ["documents"]:
                self._only(self.query, frozenset({"primaryKey", "csvDelimiter", "customMetadata", "skipCreation"}))
                given = self._json("application/json", "application/x-ndjson")
                documents = given if isinstance(given, list) else [given]
                key = self.query.get("primaryKey")
                return 202, store.enqueue("documentAdditionOrUpdate", [uid], lambda: store.add(uid, key, documents))
            case "POST", ["documents", "delete-batch"]:
                keys = self._json()
                if not isinstance(keys, list) or not all(isinstance(key, int | str) for key in keys):
                    raise Refused(400, "invalid_document_id", "expected an array of document ids")
                return 202, store.enqueue("documentDeletion", [uid], lambda: store.remove(uid, keys))
            case "POST", ["documents", "delete"]:
                body = self._json()
                self._only(body, frozenset({"filter"}))
                if not isinstance(body.get("filter"), str) or not body["filter"].strip():
                    raise Refused(400, "invalid_document_filter", "Sending an empty filter is forbidden.")
                return 202, store.enqueue("documentDeletion", [uid], lambda: store.delete(uid, body["filter"]))
        raise Refused(404, "not_found", f"no route {self.target}")


def _shown(task: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in task.items() if key != "of"}


def _check_settings(settings: Mapping[str, Any]) -> None:
    """Refuse values of another type than the default's, unknown keys, and unknown ranking rules."""
    for name, value in settings.items():
        default = SETTINGS[name]
        code = "invalid_settings_" + re.sub(r"(?<!^)(?=[A-Z])", "_", name).lower()
        if value is None:
            continue
        if default is not None and not isinstance(value, type(default)):
            raise Refused(400, code, f"Invalid value type at `.{name}`")
        if isinstance(default, dict) and default and not value.keys() <= default.keys():
            raise Refused(400, "bad_request", f"Unknown field inside `.{name}`: {sorted(value)}")
    for rule in settings.get("filterableAttributes") or ():
        _check_rule(rule)
    if unknown := set(settings.get("rankingRules") or ()) - RULES:
        raise Refused(400, "invalid_settings_ranking_rules", f"{unknown} ranking rule is invalid")
    if settings.get("proximityPrecision", "byWord") not in ("byWord", "byAttribute", None):
        raise Refused(400, "invalid_settings_proximity_precision", "expected one of `byWord`, `byAttribute`")
    most = (settings.get("pagination") or {}).get("maxTotalHits", 1)
    if not isinstance(most, int) or most < 1:
        raise Refused(400, "invalid_settings_pagination", "Invalid value at `.pagination.maxTotalHits`")


def _check_rule(rule: Any) -> None:
    if isinstance(rule, str):
        return
    features = rule.get("features", {})
    known = (
        (rule, {"attributePatterns", "features"}),
        (features, {"facetSearch", "filter"}),
        (features.get("filter", {}), {"equality", "comparison"}),
    )
    if "attributePatterns" not in rule or any(given.keys() - names for given, names in known):
        raise Refused(400, "invalid_settings_filterable_attributes", f"Unknown field inside {rule}")
