"""Random requests of a host, and their answers as text that two servers can be compared by."""

from __future__ import annotations

import json
import random
import re
import unicodedata
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeVar

from mcp import Client
from mcp.shared.exceptions import MCPError
from mcp_types import PromptReference, ResourceTemplateReference, TextContent, TextResourceContents

from tests.support.access.people_base import CANARIES, all_pages

T = TypeVar("T")

CHANGEABLE: Final = (
    (re.compile(r"20[2-9]\d-\d\d-\d\d[T ]\d\d:\d\d:\d\d(\.\d+)?(Z|\+00:00)?"), "TIME"),
    (re.compile(r"\b(confidence|recency)(\\*\"?:| )\d\.\d+"), r"\1\2NUMBER"),
    (re.compile(r"\bp-[0-9a-f]{20}\b"), "PROPOSAL"),
    (re.compile(r"\b([a-z-]+)-[0-9a-f]{20}\b"), r"\1-ID"),
    (re.compile(r"\b([a-z_-]+_(?:iter)?\d+)_[0-9a-f]{8}\b"), r"\1_CHANCE"),
    (re.compile(r"\b\d+(\.\d+)? (ms|s|seconds?)\b"), "TOOK"),
    (re.compile(r'"(duration_ms|milliseconds|seconds)": ?\d+(\.\d+)?'), r'"\1":TOOK'),
    (re.compile(r'"(call|id|plan|key|arguments_hash)": ?"[0-9a-z/-]*[0-9a-f]{8,64}"'), r'"\1":ID'),
    (re.compile(r"\bf-[0-9a-f]{16}\b"), "FRAME"),
    (re.compile(r"\b(req|call)_\d{6}(_\d+)?\b"), r"\1_NUMBER"),
)
"""Parts of an answer that differ between two servers with the same pages: times, what follows from them, random ids, and numbers of
the model that both use."""

WORDS: Final = (
    "budget travel",
    "launch hall",
    "euros",
    "holidays calendar",
    "team",
    "open notes",
    "salary",
    "diary",
    "plan for q3",
)
SECTIONS: Final = ("Budget", "Dates", "Salary quokkafern", "Diary zanderplum", "Nothing")
AGENTS: Final = ("research", "curate", "build", "nobody")


@dataclass(frozen=True)
class Probe:
    """One request: `how` is the method, `name` a tool, an address or a prompt."""

    how: str
    name: str
    arguments: Mapping[str, Any]

    @property
    def text(self) -> str:
        """The request as text: its own words may come back in the answer."""
        return json.dumps([self.how, self.name, self.arguments], ensure_ascii=False)


class Prober:
    """Makes probes from a seed."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)  # noqa: S311 - a repeatable choice, no secret
        self._paths = sorted(all_pages())
        self._folders = sorted({path.rpartition("/")[0] for path in self._paths} | {"people/eve/none", "people/zoe"})

    def probe(self) -> Probe:
        """Return the next probe."""
        return self._random.choice([*TOOL_PROBES.values(), *OTHER_PROBES.values()])(self)

    # --- parts of requests --------------------------------------------------------------------------------------------

    def any(self, *choices: T) -> T:
        """Return one of them."""
        return self._random.choice(choices)

    def odds(self, of: int) -> bool:
        """Return true once in so many times."""
        return self._random.randrange(of) == 0

    def path(self) -> str:
        """Return a path of a page, in one of its spellings."""
        path = self.any(*self._paths, "plans/none.md", "people/ann/none.md", "people/zoe/diary.md")
        return self.spelled(path)

    def folder(self) -> str:
        """Return a path of a folder."""
        return self.spelled(self.any("", *self._folders))

    def spelled(self, path: str) -> str:
        """Return the path, sometimes spelled as another system would."""
        ways: Sequence[Callable[[str], str]] = (
            *[lambda one: one] * 8,
            str.upper,
            str.title,
            lambda one: f"./{one}",
            lambda one: one.replace("/", "//"),
            lambda one: one.replace("/", "\\"),
            lambda one: f"{one}/",
            lambda one: unicodedata.normalize("NFD", one),
            lambda one: one.removesuffix(".md"),
            lambda one: f"plans/../{one}",
            lambda one: f"/{one}",
            lambda one: one.replace("people", "peo\u200bple"),
        )
        return self._random.choice(ways)(path)

    def name(self) -> str:
        """Return something that may name a page: a path, a title, an alias, or a wrong spelling of it."""
        word = self.any(*CANARIES.values())
        names = (
            "Launch list",
            "launch",
            "Plan for Q3",
            "Team",
            f"Diary {word}",
            f"{word} log",
            f"{word}-launch",
            word,
            word[:-1],
        )
        return self.any(self.path(), self.any(*names))

    def query(self) -> str:
        """Return a question; often with a word that is only in one person's folder, or nearly that word."""
        word = self.any(*CANARIES.values())
        nearly = word[:3] + word[4:]
        return self.any(
            *WORDS, word, nearly, f"{word} budget", f"{self.any(*WORDS)} {nearly}", f"where is {word}?", word[:5]
        )

    def content(self) -> str:
        """Return a text to write."""
        word = self.any(*CANARIES.values(), "hall")
        return self.any(
            "The launch is on 5 March 2027.\n",
            "# Launch list\n\n- Book the hall\n- Invite the press\n- Order flowers\n",
            f"See [this](../people/ann/diary.md), [[Diary {word}]] and ![[people/eve/diary.md]].\n",
            "Travel costs are paid within 30 days.\n",
            f"The budget for travel is 9,000 euros, says {word}.\n",
        )

    def source(self) -> str:
        """Return a source."""
        return self.any("user", "user", "url:https://example.org/a", f"kb:{self.any(*self._paths)}", "wiki:handbook")


def _tool(name: str, arguments: Callable[[Prober], Mapping[str, Any]]) -> Callable[[Prober], Probe]:
    return lambda prober: Probe("tool", name, arguments(prober))


REVISION: Final = "0123456789abcdef"
TOOL_PROBES: Final[Mapping[str, Callable[[Prober], Probe]]] = {
    "kb_map": _tool(
        "kb_map",
        lambda p: {
            "path": p.any(p.folder(), p.folder(), p.path(), f"#{p.any('plans', 'money', *CANARIES.values())}"),
            "depth": p.any(1, 3),
        },
    ),
    "kb_read": _tool(
        "kb_read",
        lambda p: {
            "path": p.name(),
            **p.any({}, {}, {"view": "full"}, {"section": p.any(*SECTIONS)}, {"revision": REVISION}),
        },
    ),
    "kb_search": _tool(
        "kb_search",
        lambda p: {
            "query": p.query(),
            "limit": p.any(3, 20),
            "explain": p.odds(2),
            "mode": p.any("auto", "navigation", "discovery"),
            **p.any({}, {}, {"path": p.folder()}, {"path": p.path()}),
            **p.any({}, {}, {"filters": {"tags": [p.any("plans", "money", *CANARIES.values())]}}),
        },
    ),
    "kb_history": _tool("kb_history", lambda p: {"path": p.name(), "limit": p.any(1, 20)}),
    "kb_contradictions": _tool(
        "kb_contradictions",
        lambda p: {
            "limit": p.any(1, 20),
            "dismissed": p.odds(2),
            **p.any({}, {"path": p.folder()}, {"path": p.path()}),
        },
    ),
    "kb_merge": _tool(
        "kb_merge",
        lambda p: {
            "path": p.any(p.path(), p.folder() or "plans", p.name()),
            "content": p.content(),
            "source": p.source(),
            "dry_run": not p.odds(3),
            **p.any({}, {"base_revision": REVISION}, {"section": p.any(*SECTIONS)}, {"corroboration": [p.source()]}),
        },
    ),
    "kb_move": _tool("kb_move", lambda p: {"path": p.name(), "to": p.path(), "dry_run": not p.odds(3)}),
    "kb_delete": _tool("kb_delete", lambda p: {"path": p.name(), "base_revision": REVISION, "dry_run": p.odds(2)}),
    "kb_revert": _tool("kb_revert", lambda p: {"path": p.name(), "revision": REVISION, "dry_run": p.odds(2)}),
    "kb_dismiss": _tool("kb_dismiss", lambda p: {"contradiction_id": p.any(1, 2, 3, 4, 99), "reason": "Both hold."}),
    "trust_status": _tool("trust_status", lambda _: {}),
    "proposal_status": _tool("proposal_status", lambda p: p.any({}, {"proposal_id": "p-" + "0" * 20})),
    "proposal_withdraw": _tool("proposal_withdraw", lambda _: {"proposal_id": "p-" + "0" * 20}),
    "journey_start": _tool("journey_start", lambda p: {"brief": p.query(), **p.any({}, {"agent": p.any(*AGENTS)})}),
    "journey_list": _tool("journey_list", lambda p: p.any({}, {"agent": "research"}, {"state": "active"})),
    "journey_status": _tool(
        "journey_status",
        lambda p: {
            "journey_id": p.any("research-" + "0" * 20, "research-owner"),
            "view": p.any("state", "report", "events"),
        },
    ),
    "journey_submit": _tool(
        "journey_submit", lambda _: {"journey_id": "research-" + "0" * 20, "version": 1, "work": {"a": "b"}}
    ),
    "journey_decide": _tool(
        "journey_decide", lambda _: {"journey_id": "research-" + "0" * 20, "version": 1, "decision": "approve"}
    ),
}
"""A probe for each tool that reaches pages. A test compares the names with the tools that are declared."""

OTHER_PROBES: Final[Mapping[str, Callable[[Prober], Probe]]] = {
    "kb://map/": lambda _: Probe("resource", "kb://map/", {}),
    "kb://map/{+path}": lambda p: Probe("resource", f"kb://map/{p.folder()}", {}),
    "kb://doc/{+path}": lambda p: Probe("resource", f"kb://doc/{p.name()}", {}),
    "proposal://{proposal_id}": lambda _: Probe("resource", "proposal://p-" + "0" * 20, {}),
    "audit://recent": lambda _: Probe("resource", "audit://recent", {}),
    "agent://{agent}": lambda p: Probe("resource", f"agent://{p.any(*AGENTS)}", {}),
    "agent://{agent}/{phase}": lambda p: Probe("resource", f"agent://{p.any(*AGENTS)}/ROUTE", {}),
    "journey://{journey_id}": lambda p: Probe("resource", f"journey://{p.any('research-owner', 'none')}", {}),
    "journey://{journey_id}/events": lambda p: Probe(
        "resource", f"journey://{p.any('research-owner', 'none')}/events", {}
    ),
    "journey://{journey_id}/report": lambda p: Probe(
        "resource", f"journey://{p.any('research-owner', 'none')}/report", {}
    ),
    "memory://{task}/{agent}": lambda _: Probe("resource", "memory://research-owner/research", {}),
    "resources/list": lambda _: Probe("list", "resources", {}),
    "prompts/list": lambda _: Probe("list", "prompts", {}),
    "prompt route": lambda p: Probe("prompt", "route", {"question": p.query()}),
    "prompt continue": lambda p: Probe("prompt", "continue", {"journey_id": p.any("research-owner", "none")}),
    "prompt research": lambda p: Probe("prompt", "research", {"brief": p.query()}),
    "complete kb://doc": lambda p: Probe(
        "complete", "kb://doc/{+path}", {"path": p.any(p.path(), p.path()[:6], p.query()[:4])}
    ),
    "complete kb://map": lambda p: Probe("complete", "kb://map/{+path}", {"path": p.any(p.folder(), p.folder()[:8])}),
    "complete journey": lambda p: Probe(
        "complete", "journey://{journey_id}", {"journey_id": p.any("", "research", p.query())}
    ),
    "complete memory": lambda p: Probe("complete", "memory://{task}/{agent}", {"task": p.any("", p.query())}),
    "complete agent": lambda p: Probe("complete", "agent://{agent}", {"agent": p.any("", "re")}),
    "complete continue": lambda p: Probe("complete prompt", "continue", {"journey_id": p.any("", p.query())}),
}
"""A probe for each resource, each prompt of ours, and each completion."""


async def answer(client: Client, probe: Probe) -> str:
    """Return the answer, or the error, as text without what differs from server to server."""
    try:
        found = await _asked(client, probe)
    except MCPError as error:
        found = f"ERROR {error.error.code} {error.error.message}"
    for pattern, word in CHANGEABLE:
        found = pattern.sub(word, found)
    return found


async def _asked(client: Client, probe: Probe) -> str:
    given = dict(probe.arguments)
    if probe.how == "tool":
        result = await client.call_tool(probe.name, given)
        return "\n".join(part.text for part in result.content if isinstance(part, TextContent))
    if probe.how == "resource":
        contents = (await client.read_resource(probe.name)).contents
        return "\n".join(part.text for part in contents if isinstance(part, TextResourceContents))
    if probe.how == "prompt":
        return (await client.get_prompt(probe.name, given)).model_dump_json()
    if probe.how == "list":
        listing = client.list_prompts if probe.name == "prompts" else client.list_resources
        return (await listing()).model_dump_json()
    ((argument, value),) = given.items()
    ref = (
        PromptReference(name=probe.name)
        if probe.how == "complete prompt"
        else ResourceTemplateReference(uri=probe.name)
    )
    return (await client.complete(ref, {"name": argument, "value": value})).model_dump_json()
