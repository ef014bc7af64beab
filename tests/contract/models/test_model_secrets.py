"""The key of a language model stays with the server, whatever its server does and however much it echoes.

It is in no answer, error, log, frame, proposal, trace, audit record, doctor output, or file on disk. Nor is the text of
a model or a page in an error or a log.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import traceback
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from agents.loop.model.errors import ProviderError
from agents.loop.model.ports import FromUser, ModelRequest
from mcp_server.__main__ import VERBS, main, module_of
from mcp_server.app.settings.settings import VARIABLES
from mcp_server.cli.doctor import doctor
from tests.contract.connectors.test_service_secrets import everything_logged, on_disk
from tests.doubles.provider import KEY
from tests.doubles.provider_turns import Call, Raw, Step, Trouble, Turn, said, uses
from tests.doubles.serving import Fault, raw, redirected, truncated
from tests.support.runs.hosts import RunHost, run_host

pytestmark = pytest.mark.security

VENDORS = ("anthropic", "openai", "openai-responses")
WORDS = "the merger with Quagmire Ltd is off"
"""A model's text: it may appear where it was asked for, and nowhere else."""
ECHO = f"you sent {KEY}"
HEADERS = {"x-echo": KEY, "request-id": KEY, "x-request-id": KEY, "retry-after": KEY}


def echoing(status: int) -> Trouble:
    """Return an error that has the key wherever its shape has room for a word."""
    return Trouble(status, KEY, f"{ECHO}, {WORDS}", code=KEY, param=KEY, headers=HEADERS, more={"detail": ECHO})


STEPS: Mapping[str, Step] = {
    "a 400 that echoes": echoing(400),
    "a 401 that echoes": echoing(401),
    "a 404 that echoes": echoing(404),
    "a 413 that echoes": echoing(413),
    "a 429 that echoes": echoing(429),
    "a 500 that echoes": echoing(500),
    "a page that echoes": Raw(f"<p>{ECHO} {WORDS}".encode(), content_type="text/html", headers=HEADERS),
    "JSON of another shape": Raw(json.dumps({"error": ECHO, "detail": ECHO}).encode()),
    "JSON that ends too early": Raw(json.dumps({"error": ECHO})[:-3].encode()),
    "a refusal": Turn(refusal=KEY),
    "an unknown tool": uses(KEY.replace("-", "_"), text=ECHO),
}
FAULTS: Mapping[str, Fault] = {
    "a redirect with the key in it": redirected(f"https://elsewhere.example.com/{KEY}?key={KEY}"),
    "no HTTP": raw(f"{ECHO}\r\n\r\n".encode()),
    "a broken head": raw(f"HTTP/1.1 200 OK\r\nbad header {ECHO}\r\n\r\n".encode()),
    "half a reply": truncated(),
}
TELLING = {
    "a 400 that echoes": "anthropic",
    "a page that echoes": "openai",
    "a redirect with the key in it": "anthropic",
    "an unknown tool": "openai",
}
"""The faults that could leak the most, each in its own way; the long tests try the others."""


@dataclass
class PageContext:
    """A host whose server asks a model; `told` is everything answered, `log` everything logged, at every level."""

    host: RunHost
    log: Any
    told: list[str] = field(default_factory=list)
    errors: list[str] = field(default_factory=list)

    async def call(self, tool: str, **arguments: object) -> dict[str, Any]:
        result = await self.host.writer.client.call_tool(tool, dict(arguments))
        (self.errors if result.is_error else self.told).append(result.model_dump_json())
        return dict(result.structured_content or {})

    async def run(self, goal: str) -> dict[str, Any]:
        answer = await self.call("agent_run", goal=goal)
        if answer:
            await self.call("agent_trace", run_id=answer["run_id"])
        return answer


@asynccontextmanager
async def house(folder: Path, **more: Any) -> AsyncIterator[PageContext]:
    with everything_logged() as log:
        async with run_host(folder, **more) as host:
            yield PageContext(host, log)


def check(there: PageContext) -> None:
    """Assert that nothing answered or stored so far holds the key, and no error or log the model's text."""
    log = there.log.getvalue()
    assert KEY not in log, [line for line in log.splitlines() if KEY in line]
    assert WORDS not in log, [line for line in log.splitlines() if WORDS in line]
    for told in (*there.told, *there.errors):
        assert KEY not in told, told
    assert not [told for told in there.errors if WORDS in told]
    assert there.host.settings.state_dir is not None
    for name, content in on_disk(there.host.settings.state_dir):
        assert KEY.encode() not in content, name


@pytest.mark.parametrize(
    "vendor",
    ["openai", *(pytest.param(vendor, marks=pytest.mark.external) for vendor in ("anthropic", "openai-responses"))],
)
async def test_without_faults_the_key_goes_to_the_model_and_nowhere_else(tmp_path: Path, vendor: str) -> None:
    async with house(tmp_path, vendor=vendor, model_helps=("routes",)) as there:
        host = there.host
        host.will("Look", uses("kb_read", path="guides/deploy.md"), said(WORDS))
        host.will("Move", uses("kb_move", path="guides/deploy.md", to="guides/release.md"), said("done"))
        host.will("legal", said('{"mode": "discovery", "confidence": 0.9}'))
        done, proposed = await there.run("Look."), await there.run("Move it.")
        taken = await there.call("kb_search", query="anything under legal?")
        assert taken["route"]["reason"].startswith("the language model")
        assert (done["status"], done["text"], proposed["status"]) == ("done", WORDS, "proposed")
        check(there)
        sent = host.served.seen[-1].headers
        assert KEY in (sent.get("x-api-key", ""), sent.get("authorization", "").removeprefix("Bearer "))
        shown = [repr(host.settings), repr(host.settings.provider), repr(host.app), repr(host.app.services.model)]
        shown += [repr(await host.app.services.model.provider()), repr(vars(host.app.services.model))]
        assert not [one for one in shown if KEY in one]


@pytest.mark.parametrize("vendor", VENDORS)
async def test_a_key_that_a_server_echoes_into_its_answers_is_taken_out(tmp_path: Path, vendor: str) -> None:
    async with house(tmp_path, vendor=vendor) as there:
        arguments = {"path": f"guides/{KEY}.md"}
        there.host.will("Look", Turn(ECHO, (Call("kb_read", arguments),), thoughts=ECHO), said(ECHO))
        answer = await there.run("Look.")
        assert answer["status"] == "done"
        assert "you sent" in answer["text"]
        check(there)


@pytest.mark.parametrize(
    ("fault", "vendor"),
    [
        pytest.param(fault, vendor, marks=() if TELLING.get(fault) == vendor else pytest.mark.external)
        for fault in (*STEPS, *FAULTS)
        for vendor in ("anthropic", "openai")
    ],
)
async def test_no_fault_of_a_model_brings_the_key_or_a_text_to_light(tmp_path: Path, fault: str, vendor: str) -> None:
    async with house(tmp_path, vendor=vendor, model_helps=("routes", "contradictions", "summaries")) as there:
        if fault in STEPS:
            for words in ("Look", "legal", "Call the tool"):
                there.host.will(words, *[STEPS[fault]] * 8)
        else:
            there.host.served.plan = lambda _method, _path, _number: FAULTS[fault]
        answer = await there.run("Look.")
        assert answer.get("status") == "failed" or there.errors
        await there.host.app.services.model.provider()
        await there.call("kb_search", query="anything under legal?")
        found = await doctor.examine(there.host.settings)
        assert KEY not in repr(found)
        assert {one.health for one in found if one.what == "model"} != {"ok"} or "tool" in fault
        check(there)


@pytest.mark.parametrize("fault", ["a 400 that echoes", "no HTTP"])
async def test_no_traceback_has_the_key(tmp_path: Path, fault: str) -> None:
    """A debugger, a crash report or a careless log line would print this."""
    async with house(tmp_path) as there:
        there.host.will("Look", *[STEPS.get(fault, said("unused"))] * 8)
        if fault in FAULTS:
            there.host.served.plan = lambda _method, _path, _number: FAULTS[fault]
        provider = await there.host.app.services.model.provider()
        with pytest.raises(ProviderError) as caught:
            await provider.complete(ModelRequest("run_iter1_01234567", (FromUser("Look."),)))
    told = [*traceback.format_exception(caught.value), repr(caught.value.args), repr(vars(caught.value))]
    assert not [one for one in told if KEY in one]


async def test_the_audit_log_and_the_command_line_say_no_key(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    async with house(tmp_path, level=5) as there:
        there.host.will("Move", uses("kb_move", path="guides/deploy.md", to="guides/release.md"), said(ECHO))
        answer = await there.run("Move it.")
        settings = there.host.settings
        for name, text in (
            ("FORGE_MODEL", "openai:some-model"),
            ("OPENAI_API_KEY", KEY),
            ("OPENAI_BASE_URL", str(settings.openai_base_url)),
        ):
            monkeypatch.setenv(name, text)
        place = ["--kb", str(settings.kb), "--state-dir", str(settings.state_dir)]
        for verb in (["audit", "export"], ["audit", "verify"], ["doctor"], ["doctor", "--json"]):
            await asyncio.to_thread(main, [*verb, *place])
        said_there = capsys.readouterr()
        assert answer["status"] == "done"
        assert "kb_move" in said_there.out
        assert KEY not in said_there.out + said_there.err
        check(there)


def test_no_verb_takes_a_key_as_an_argument_because_every_account_can_read_those() -> None:
    secret = {v.field for v in VARIABLES if v.name.endswith("_KEY")}
    assert {"anthropic_api_key", "openai_api_key"} <= secret
    for verb in VERBS:
        parser = argparse.ArgumentParser()
        module_of(verb).arguments(parser)
        assert not secret & {action.dest for action in parser._actions}
        assert not [one for one in parser._option_string_actions if "key" in one]
