"""A Plane for tests: the public API of a community edition 1.2.3 on loopback, which answers as the recorded one did.

It stores what it receives. Where no reply was recorded (a field that is too long, a second project with a key) it
follows the program's code. tests/contract/connectors/plane/test_double.py replays every recorded request against it.

Source: tests/samples/plane; https://developers.plane.so/api-reference/introduction; github.com/makeplane/plane
"""

from __future__ import annotations

import json
import math
import re
import time
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from contextlib import asynccontextmanager
from datetime import datetime
from typing import Any
from urllib.parse import parse_qs

from starlette.types import Receive, Scope, Send

from tests.doubles.plane_answers import BROKEN, NO_PAGE, NO_PERMISSION, Answer, Asked, Paused, parsed
from tests.doubles.plane_handlers import Handlers
from tests.doubles.plane_rows import ADA, ADMIN, GUEST, GUS, MEL, MEMBER, OTTO, PRIORITIES, WORKSPACE, Account, Project
from tests.doubles.serving import Plan, Served, no_fault, served

__all__ = [
    "ADA",
    "GUS",
    "MEL",
    "OTTO",
    "PRIORITIES",
    "WORKSPACE",
    "Account",
    "Answer",
    "Plane",
    "Project",
    "plane_served",
    "seeded",
]


class Plane(Handlers):
    """A workspace of Plane, as an ASGI application. Tests may inspect and change it as people would in their browser.

    `allowance` is how many requests a key may send in a minute, 60 in a real one; `refused` counts those that were too many.
    `pause` is awaited between a create's look-up of its key and its write, which are not atomic in the real program either.
    `now` must not go back.
    """

    def __init__(
        self,
        *,
        accounts: Iterable[Account] = (ADA, MEL, GUS, OTTO),
        now: Callable[[], datetime] | None = None,
        monotonic: Callable[[], float] = time.monotonic,
        allowance: int = 100_000,
    ) -> None:
        super().__init__(accounts, now)
        self.allowance = allowance
        self._monotonic = monotonic
        self._spent: dict[str, list[float]] = {}
        self.refused = 0

    # The API

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        content = b""
        more = True
        while more:
            message = await receive()
            content += message.get("body", b"")
            more = message.get("more_body", False)
        headers = {name.decode("latin-1").lower(): value.decode("latin-1") for name, value in scope["headers"]}
        try:
            answer = self.answered(scope["method"], scope["path"], scope["query_string"].decode(), headers, content)
        except Paused as paused:
            if self.pause is not None:
                await self.pause()
            answer = paused.write()
        told = b"" if answer.body is None else json.dumps(answer.body, ensure_ascii=False).encode()
        sent = {"content-length": str(len(told))} | answer.headers
        if answer.body is not None:
            sent["content-type"] = "application/json"
        raw = [(name.lower().encode(), value.encode("latin-1")) for name, value in sent.items()]
        await send({"type": "http.response.start", "status": answer.status, "headers": raw})
        await send({"type": "http.response.body", "body": told})

    def answered(self, method: str, path: str, query: str, headers: Mapping[str, str], content: bytes) -> Answer:
        """Return the reply to a request.

        Raises: Paused: the request is a create, and `pause` is set.
        """
        limits: dict[str, str] = {}
        try:
            handler, parts = self._route(path, query)
            who = self._authenticated(headers)
            asked = Asked(method, {name: values[-1] for name, values in parse_qs(query).items()}, None, who)
            self._permitted(handler, asked, parts)
            # After the permission: a request that is not permitted does not count.
            limits = self._within_limits(who)
            answer = self._handled(handler, asked, parts, headers, content)
        except Answer as made:
            answer = made
        except Paused:
            raise
        except Exception:  # noqa: BLE001  # as the program does: whatever goes wrong inside is a 500 without a reason
            answer = Answer(500, BROKEN)
        answer.headers.update(limits)
        return answer

    def _route(self, path: str, query: str) -> tuple[str, Mapping[str, str]]:
        for pattern, name in ROUTES:
            if found := pattern.fullmatch(path):
                return name, found.groupdict()
        if not path.endswith("/") and any(pattern.fullmatch(path + "/") for pattern, _ in ROUTES):
            raise Answer(301, None, {"location": f"{path}/{'?' + query if query else ''}"})
        raise Answer(404, NO_PAGE)

    def _authenticated(self, headers: Mapping[str, str]) -> Account:
        key = headers.get("x-api-key")
        if not key:
            raise Answer(401, {"detail": "Authentication credentials were not provided."})
        found = next((account for account in self.accounts.values() if account.key == key), None)
        if found is None:
            raise Answer(403, {"detail": "Given API token is not valid"})
        return found

    def _within_limits(self, who: Account) -> dict[str, str]:
        """Count the request, or raise the answer that there were too many; a refused one does not count.

        Source: SimpleRateThrottle of github.com/encode/django-rest-framework; apps/api/plane/api/rate_limit.py of
        github.com/makeplane/plane
        """
        now = self._monotonic()
        recent = [at for at in self._spent.get(who.key, []) if at > now - 60]
        if len(recent) >= self.allowance:
            self.refused += 1
            wait_s = math.ceil(60 - (now - recent[-self.allowance]))
            raise Answer(
                429, {"error_code": 5900, "error_message": "RATE_LIMIT_EXCEEDED"}, {"retry-after": str(max(1, wait_s))}
            )
        self._spent[who.key] = [*recent, now][-self.allowance :]
        return {
            "x-ratelimit-remaining": str(self.allowance - len(recent) - 1),
            "x-ratelimit-reset": str(int(self._now().timestamp()) + 60),
        }

    def _handled(
        self, name: str, asked: Asked, parts: Mapping[str, str], headers: Mapping[str, str], content: bytes
    ) -> Answer:
        handler = getattr(self, f"_{asked.method.lower()}_{name}", None)
        if handler is None:
            raise Answer(405, {"detail": f'Method "{asked.method}" not allowed.'})
        if asked.method in ("POST", "PATCH"):
            asked = Asked(asked.method, asked.query, parsed(headers, content), asked.who)
        answer = handler(asked, **{part: value for part, value in parts.items() if part != "slug"})
        assert isinstance(answer, Answer)
        return answer

    def _permitted(self, name: str, asked: Asked, parts: Mapping[str, str]) -> None:
        """Return where the key's owner may do this, by the program's permission classes."""
        elsewhere = parts.get("slug", WORKSPACE) != WORKSPACE
        if name in ("me", "search") and not elsewhere:
            return
        if asked.who.role is None or elsewhere:
            raise Answer(403, NO_PERMISSION)
        reads = asked.method == "GET"
        project = self.projects.get(parts.get("project_id", ""))
        if name == "by_key":
            project = next(
                (one for one in self.projects.values() if one.row["identifier"] == parts["identifier"]), None
            )
        role = project.roles.get(asked.who.id, 0) if project else 0
        if name == "people":
            allowed = asked.who.role >= MEMBER
        elif name in ("projects", "project", "summary"):
            allowed = reads or (asked.who.role >= MEMBER if name == "projects" else role >= ADMIN)
        elif name in ("comments", "comment"):
            allowed = role >= GUEST
        elif name in ("labels", "members") and reads:
            allowed = any(asked.who.id in one.roles for one in self.projects.values())
        elif name == "members" or (name == "state" and asked.method == "DELETE"):
            allowed = role >= ADMIN
        else:
            allowed = role >= (GUEST if reads else MEMBER)
        if not allowed:
            raise Answer(403, NO_PERMISSION)


_UUID = "[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}"


def _route_of(path: str) -> re.Pattern[str]:
    return re.compile("/api/v1" + re.sub(r"(?<!P)<(\w+)>", rf"(?P<\1>{_UUID})", path))


_W = "/workspaces/(?P<slug>[^/]+)"
_P = f"{_W}/projects/<project_id>"
_T = f"{_P}/(?:work-items|issues)/<task_id>"
ROUTES = [
    (_route_of(path), name)
    for path, name in (
        ("/users/me/", "me"),
        (f"{_W}/members/", "people"),
        (f"{_W}/projects/", "projects"),
        (f"{_P}/", "project"),
        (f"{_P}/summary/", "summary"),
        (f"{_P}/members/", "members"),
        (f"{_P}/states/", "states"),
        (f"{_P}/states/<own_id>/", "state"),
        (f"{_P}/labels/", "labels"),
        (f"{_P}/labels/<own_id>/", "label"),
        (f"{_P}/cycles/", "cycles"),
        (f"{_P}/cycles/<own_id>/", "cycle"),
        (f"{_P}/cycles/<own_id>/cycle-issues/", "cycle_tasks"),
        (f"{_P}/cycles/<own_id>/cycle-issues/<task_id>/", "cycle_task"),
        (f"{_P}/modules/", "modules"),
        (f"{_P}/modules/<own_id>/", "module"),
        (f"{_P}/modules/<own_id>/module-issues/", "module_tasks"),
        (f"{_P}/modules/<own_id>/module-issues/<task_id>/", "module_task"),
        (f"{_P}/intake-issues/", "intake"),
        (f"{_W}/(?:work-items|issues)/search/", "search"),
        (f"{_W}/(?:work-items|issues)/(?P<identifier>[^/]+)-(?P<number>[^/-]+)/", "by_key"),
        (f"{_P}/(?:work-items|issues)/", "tasks"),
        (f"{_P}/(?:work-items|issues)/<own_id>/", "task"),
        (f"{_T}/comments/", "comments"),
        (f"{_T}/comments/<own_id>/", "comment"),
        (f"{_T}/links/", "links"),
        (f"{_T}/links/<own_id>/", "link"),
        (f"{_T}/(?:attachments|issue-attachments)/", "attachments"),
        (f"{_T}/activities/", "activities"),
        (f"{_T}/relations/", "relations"),
    )
]


def seeded(**given: Any) -> Plane:
    """Return a workspace much as it was when the samples were recorded.

    Projects KB (everyone but Otto) and OPS (Ada alone).

    KB has the states, the label `bug`, the cycles `Sprint 1` and `Draft`, the module `Indexing`, and four tasks.
    """
    plane = Plane(**given)
    plane.add_project("KB", "Knowledge Base", own_id="f31ca0e1-8bc5-415e-b30a-e6423eed5b32")
    plane.add_project("OPS", "Ops", own_id="a1a86881-2900-4854-b402-f1f399b5742f")
    plane.add_member("KB", MEL)
    plane.add_member("KB", GUS)
    plane.add_state("KB", "In Review", "started")
    bug = plane.add_label("KB", "bug")
    todo = next(row["id"] for row in plane.project("KB").states.values() if row["name"] == "Todo")
    plane.add_task(
        "KB",
        "Search returns stale rows",
        description_html="<p>After re-index the <b>old</b> rows stay.</p>",
        priority="high",
        state=todo,
        labels=[bug["id"]],
        assignees=[ADA.id, MEL.id],
        start_date="2026-11-20",
        target_date="2026-12-01",
    )
    plane.add_task("KB", "Minimal")
    plane.add_task(
        "KB",
        "Через старый путь: поиск по-русски",
        description_html="<div><p>Поисковый индекс</p></div>",
        external_id="zulip-42",
        external_source="zulip",
    )
    plane.add_task("KB", "assignee not in project")
    plane.add_comment("KB-1", "<p>Seen again on build 42.</p>")
    plane.add_cycle("KB", "Sprint 1", "KB-1", starts="2026-11-20", ends="2026-12-04")
    plane.add_cycle("KB", "Draft")
    plane.add_module("KB", "Indexing", "KB-1")
    return plane


@asynccontextmanager
async def plane_served(plane: Plane | None = None, *, plan: Plan = no_fault) -> AsyncIterator[tuple[Served, Plane]]:
    """Serve a workspace, `seeded()` unless another is given, on a free port."""
    trust_record = plane or seeded()
    async with served(trust_record, plan=plan) as running:
        yield running, trust_record
