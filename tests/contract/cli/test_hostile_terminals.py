"""Text from others in a terminal: no verb lets it move the cursor or change the direction of text, and JSON stays JSON."""

from __future__ import annotations

import argparse
import io
import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import anyio
import pytest
from mcp import Client

from knowledge.pages.paths import ACTING
from knowledge.search.ranking.weights import RankingWeights
from knowledge.search.use.events import AskedQuestion, PageUse, SearchedFor, UsingSession
from knowledge.search.use.store import UseStore
from knowledge.search.use.stored_weights import WeightsRecord, store
from mcp_server.__main__ import VERBS as DECLARED
from mcp_server.__main__ import main, module_of
from mcp_server.app.composition import open_app
from mcp_server.app.knowledge_base import open_state, utc_now
from mcp_server.app.settings.settings import Settings
from mcp_server.cli.terminal.console import EscapedConsole
from mcp_server.cli.terminal.escape import EscapedStream, harmless
from mcp_server.gate.host_registration import BadHostName, enrol
from mcp_server.runs.locations import runs_in
from tests.support.hosts.writers import let_in, writing
from tests.support.knowledge_bases.folders import write
from tests.support.runs.records import Walk, header, hold

ACTS = "\x1b]0;owned\x07\x1b[2J\x9b2J\u202egnp.exe\u2066\u2069\u200f\x7f\u2028"
ACTING_CHARACTER = re.compile(f"[{ACTING}]")
PAGES = {
    "_index.md": f"---\ntitle: Root {ACTS.replace(chr(0x2028), '')}\nsummary: Sum {ACTS}\n---\n# Root\n",
    "evil\u202edm.md": f"# Deploy {ACTS}\n\nBack off for forty minutes {ACTS}.\n\n## Part {ACTS}\n\ntext\n",
    "lost.md": f"---\ntitle: a: {ACTS.strip()}\n---\n[a](gone{ACTS}.md), [b](old/ends.md) {ACTS}\n",
    "ends.md": "# Ends\r\n\r\nWindows lines.\r\n",
}
MARKED_FOR_DECISIONS = "zero\u200bwidth p\u0430ypal"
"""A zero-width space, and a Cyrillic letter that looks like a Latin one."""
BAD_ID = f"no{ACTS}id"
VERBS: dict[str, list[list[str]]] = {
    "serve": [["--http", ACTS]],
    "demo": [[f"--{ACTS}"]],
    "install": [[ACTS], ["cursor", "--show", "--trust-place", f"plane:{ACTS}"]],
    "index": [[]],
    "search": [["forty minutes"], ["forty minutes", "--json"], [ACTS]],
    "embedder list": [[], ["--json"]],
    "embedder use": [[ACTS], [f"/{ACTS}"], [f"endpoint:{ACTS}"], ["endpoint:m", "--url", ACTS], [f"fastembed:{ACTS}"]],
    "reranker show": [[], ["--json"]],
    "reranker use": [[ACTS], [f"/{ACTS}"], [f"endpoint:{ACTS}"], ["endpoint:m", "--url", ACTS], [f"fastembed:{ACTS}"]],
    "eval": [
        [f"no{ACTS}file"],
        ["--from-use", "--details"],
        ["--from-use", "--json"],
        ["--from-use", "--fit"],
    ],
    "read": [
        ["evil\u202edm.md"],
        ["evil\u202edm.md", "--json"],
        ["evil\u202edm.md", "--outline"],
        ["no\u202esuch\x1b[2J"],
        [f"--{ACTS}"],
    ],
    "map": [[], ["--json"]],
    "agents list": [[]],
    "agents show": [["evil"], [ACTS]],
    "agents check": [[], ["{kb}/_agents/evil.yaml"], [ACTS]],
    "enroll": [[ACTS]],
    "trust list": [[]],
    "trust grant": [[ACTS, "3"], ["writer", ACTS]],
    "trust forms": [[ACTS, "on"], ["writer", ACTS]],
    "trust freeze": [["writer", "--reason", ACTS], [ACTS]],
    "trust thaw": [["writer", "--reason", ACTS], [ACTS]],
    "trust history": [["writer"], ["writer", "--json"], [ACTS]],
    "trust places": [["list"], ["add", f"plane:{ACTS}"], ["add", f"kb:{ACTS}"], ["remove", ACTS]],
    "token create": [[ACTS], ["writer", "--allow-toolsets", ACTS], ["writer", "--expires", ACTS]],
    "token list": [[], ["--json"]],
    "token revoke": [[ACTS]],
    "people add": [[ACTS], ["writer", ACTS], ["writer", f"{ACTS}@token:http"]],
    "people remove": [[ACTS], ["writer", ACTS]],
    "people list": [[], ["--json"]],
    "group add": [[ACTS], ["writer", ACTS]],
    "group remove": [[ACTS], ["writer", ACTS]],
    "group list": [[], ["--json"]],
    "rule set": [[ACTS, "writer", "read"], ["guides", ACTS, "read"], ["guides", "writer", ACTS]],
    "rule remove": [[ACTS, "writer"], ["guides", ACTS]],
    "rule list": [[], ["--json"]],
    "reviewers set": [[ACTS, "writer"], ["guides", ACTS]],
    "reviewers remove": [[ACTS]],
    "reviewers list": [[], ["--json"]],
    "review": [
        ["--list"],
        ["--list", "--json"],
        ["--show", "{proposal}"],
        ["--show", BAD_ID],
        ["--approve", BAD_ID, "--hash", ACTS],
    ],
    "run": [[ACTS]],
    "runs list": [[], ["--json"]],
    "runs show": [["{run}"], ["{run}", "--json"], [BAD_ID]],
    "runs follow": [["{run}"], [BAD_ID]],
    "runs answer": [["{run}", ACTS], [BAD_ID, ACTS]],
    "runs resume": [["{run}"], [BAD_ID]],
    "runs cancel": [[BAD_ID]],
    "journeys list": [[], ["--json"]],
    "journeys show": [["{journey}"], [BAD_ID]],
    "journeys events": [["{journey}"], ["{journey}", "--json"], [BAD_ID]],
    "journeys graph": [["{journey}"], [BAD_ID]],
    "journeys report": [["{journey}"], [BAD_ID]],
    "journeys decide": [[BAD_ID, "cancel", "--note", ACTS], ["{journey}", ACTS]],
    "journeys fork": [["{journey}"], [BAD_ID]],
    "journeys export": [[BAD_ID, f"no{ACTS}folder/file"], ["{journey}", f"no{ACTS}folder/file"]],
    "journeys answer": [["{journey}"], [BAD_ID]],
    "journeys rerun": [["{journey}"], [BAD_ID]],
    "journeys start": [["research", "--brief", ACTS], [ACTS, "--brief", ACTS]],
    "journeys submit": [["{journey}", "--work", f"no{ACTS}file"], [BAD_ID]],
    "journeys status": [["{journey}"], [BAD_ID]],
    "journeys resume": [["{journey}"], [BAD_ID]],
    "journeys memory": [["{journey}"], [BAD_ID]],
    "journeys keep": [["{journey}", f"no{ACTS}page.md"], [BAD_ID, "x.md"]],
    "journeys import": [["{kb}/_agents/evil.yaml"], [f"no{ACTS}file"]],
    "journeys stats": [[], ["--agent", ACTS]],
    "check": [[], ["--json"], [ACTS]],
    "contradictions list": [[], ["--json"], ["--dismissed"], ["--settled"], [ACTS]],
    "contradictions show": [["1"], ["1", "--json"], [ACTS]],
    "contradictions keep": [["1", "first", "--dry-run"], ["1", "second", "--dry-run"], ["1", ACTS]],
    "contradictions both": [["1", "--reason", ACTS], [ACTS, "--reason", "x"]],
    "contradictions dismiss": [["1", "--reason", ACTS], ["4711", "--reason", ACTS], [ACTS, "--reason", "x"]],
    "contradictions edit": [["1", "--first", ACTS, "--dry-run"], ["1", "--second", ACTS], [ACTS]],
    "contradictions reopen": [["1"], [ACTS]],
    "history": [
        [],
        ["--json"],
        ["evil\u202edm.md"],
        ["evil\u202edm.md", "--lines"],
        [ACTS],
        ["--host", ACTS],
        ["--since", ACTS],
    ],
    "diff": [
        ["evil\u202edm.md"],
        ["evil\u202edm.md", "--words"],
        ["evil\u202edm.md", ACTS],
        ["evil\u202edm.md", ACTS, "now"],
        [ACTS],
    ],
    "new": [
        [f"no{ACTS}page", "--from", "{kb}/_agents/evil.yaml"],
        [f"no{ACTS}page"],
        ["n.md", "--from", f"no{ACTS}file"],
    ],
    "edit": [["evil\u202edm.md", "--from", "{kb}/_agents/evil.yaml"], [ACTS], ["long.md", "--from", f"no{ACTS}file"]],
    "undo": [
        ["evil\u202edm.md"],
        ["ends.md", "--change", ACTS],
        [ACTS],
        ["--host", ACTS, "--since", "today"],
        ["--host", "writer", "--since", "2000-01-01"],
        ["--host", "writer", "--since", "2000-01-01", "--json"],
        ["--host", "x", "--since", ACTS],
    ],
    "export site": [[f"no{ACTS}folder/x"], ["{kb}/x", "--title", ACTS]],
    "export folder": [[f"no{ACTS}folder/x"], ["{kb}/x"]],
    "export jsonl": [["-"], [f"no{ACTS}folder/file"]],
    "mirror": [[], ["--once"], ["--once", "--json"]],
    "import": [[ACTS, "x"], ["jsonl", f"no{ACTS}file"], ["folder", "{kb}"], ["memory-jsonl", "{kb}/../memory.jsonl"]],
    "sync": [[], ["--json"], [ACTS]],
    "audit verify": [[]],
    "audit export": [[]],
    "audit search": [[], ["owned"], [ACTS, "--path", ACTS], ["--until", ACTS]],
    "audit show": [["1"], ["2"], ["3"], ["4"], ["5"], ["1", "--json"], [ACTS]],
    "state show": [[], ["--json"]],
    "state compact": [[]],
    "state move": [[ACTS, "--dry-run"], [f"postgresql://{ACTS}@x/y", "--yes"]],
    "state backup": [[f"no{ACTS}folder/file"]],
    "state restore": [[f"no{ACTS}file", "--yes"]],
    "state adopt": [[f"no{ACTS}folder", "--yes"]],
    "state new": [[]],
    "doctor": [[], ["--json"], ["--verbose"], ["--fix"], ["--fix", "--json"]],
    "reference": [[ACTS]],
}
"""Every verb, or verb and action, with texts that act on a terminal: in its arguments and in stored data."""
AGENT = f'name: evil\ntitle: "x{ACTS.replace(chr(27), "").replace(chr(7), "")}"\nphases: [{{id: "\\x1b[2J\\u202e"}}]\n'


@dataclass(frozen=True)
class Stored:
    """A knowledge base whose journey, proposal and run hold such texts."""

    settings: Settings
    journey: str
    proposal: str
    run: str

    def words(self, words: Sequence[str]) -> list[str]:
        known = {"{journey}": self.journey, "{proposal}": self.proposal, "{run}": self.run}
        return [known.get(word, word.replace("{kb}", str(self.settings.kb))) for word in words]


@pytest.fixture(scope="module")
def settings(tmp_path_factory: pytest.TempPathFactory) -> Settings:
    folder = tmp_path_factory.mktemp("hostile")
    return Settings(kb=write(folder / "kb", {**PAGES, "_agents/evil.yaml": AGENT}), state_dir=folder / "state")


@pytest.fixture(scope="module")
def stored(settings: Settings) -> Stored:
    return anyio.run(_stored, settings)


async def _stored(settings: Settings) -> Stored:
    page = "evil\u202edm.md"
    async with writing(settings, level=2) as host:
        base = await host.revision(page)
        told = f"{PAGES[page]}\n{MARKED_FOR_DECISIONS} {ACTS}\n"
        proposed = await host.merge(page, told, base_revision=base, intent=f"why {ACTS}")
        journey = await host.call("journey_start", agent="research", brief=f"How {ACTS} is it?")
    async with open_state(settings) as state:
        runs = runs_in(state)
        walk = Walk(await runs.begin(header("r-hostile", goal=f"Goal {ACTS}", principal=f"ada{ACTS}@x"), hold()))
        walk.call("kb_read", said=f"Thinking {ACTS}", path=f"p{ACTS}")
        walk.result(f"found {ACTS}")
        walk.respond(f"Answer {ACTS}")  # a run that is over ends `runs follow`
        await runs.append(await runs.run("r-hostile"), walk.run.frames, hold())
    assert settings.state_dir is not None
    use, session, now = UseStore.open(settings.state_dir), UsingSession(f"ada{ACTS}@x", "", "p"), utc_now()
    asked = AskedQuestion(now, session, SearchedFor(f"forty {ACTS} minutes"), "discovery", ("ends.md", page))
    await use.add([asked], [PageUse(now, session, page), PageUse(now, session, "_index.md")])
    use.close()
    record = WeightsRecord(RankingWeights(), f"2026{ACTS}", f"ann{ACTS}", f"a gain {ACTS}")
    store(settings.state_dir, record)
    return Stored(settings, journey["journey_id"], proposed["proposal"]["id"], "r-hostile")


def declared_verbs() -> set[str]:
    """Return every verb of the command line, with each of its actions where it has any."""
    found = set()
    for verb in DECLARED:
        parser = argparse.ArgumentParser()
        module_of(verb).arguments(parser)
        taken = [one for one in parser._actions if isinstance(one, argparse._SubParsersAction)]
        found |= {f"{verb} {action}" for one in taken for action in one.choices} or {verb}
    return found


def test_every_verb_and_action_is_attacked() -> None:
    """If this fails: add the new verb to VERBS, with hostile text in each argument and in its output."""
    assert set(VERBS) == declared_verbs()


CASES = [(verb, words) for verb, every in VERBS.items() for words in every]


@pytest.mark.parametrize(
    ("verb", "words"), CASES, ids=[ascii(f"{verb} {' '.join(words)}")[:60] for verb, words in CASES]
)
def test_no_verb_lets_a_text_act_on_the_terminal(
    verb: str, words: list[str], stored: Stored, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    monkeypatch.chdir(stored.settings.kb.parent)  # `journeys export` writes the file that it is told
    places = ["--kb", str(stored.settings.kb), "--state-dir", str(stored.settings.state_dir)]
    try:
        main([*verb.split(), *stored.words(words), *places])
    except SystemExit as left:
        assert left.code == 2  # noqa: PT017 - argparse leaves so; most verbs return
    told = capsys.readouterr()
    for said in told:
        assert not ACTING_CHARACTER.search(said.replace("\r\n", "\n")), ascii(said)
    if "{" not in " ".join(words) and verb in ("search", "read", "map") and "--json" in words:
        assert "\u202e" in json.dumps(json.loads(told.out), ensure_ascii=False)


@pytest.mark.parametrize("words", [[f"no{ACTS}verb"], [f"--{ACTS}"]])
def test_an_unknown_verb_does_not_act_either(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(words) == 2
    assert not ACTING_CHARACTER.search("".join(capsys.readouterr()))


@pytest.mark.parametrize(
    "words",
    [
        ["runs", "show", "{run}"],
        ["journeys", "show", "{journey}"],
        ["review", "--show", "{proposal}"],
        ["eval", "--from-use", "--details"],
    ],
)
def test_stored_texts_are_shown_with_marks(
    words: list[str], stored: Stored, capsys: pytest.CaptureFixture[str]
) -> None:
    """Otherwise the test above could pass because nothing was shown."""
    places = ["--kb", str(stored.settings.kb), "--state-dir", str(stored.settings.state_dir)]
    assert main([*stored.words(words), *places]) == 0
    told = capsys.readouterr().out
    assert "U+202E" in told
    if "review" in words:
        assert "U+200B" in told, "a zero-width space is marked where a person decides"
        assert "p\u0430ypal" not in told, "and so is a letter that looks like another"


def test_a_mark_names_the_character_and_line_ends_stay() -> None:
    assert harmless("a\x1b[2Jb\u202ec\td\n\r\n") == "a⟦U+001B⟧[2Jb⟦U+202E⟧c\td\n\r\n"
    told = io.StringIO(newline="")
    print("Windows lines\r", file=EscapedStream(told))
    print("over", "\rwritten", sep="", file=EscapedStream(told))
    seen = EscapedStream(told)
    seen.write("held\r")
    seen.write("back\n")
    assert told.getvalue() == "Windows lines\r\nover⟦U+000D⟧written\nheld⟦U+000D⟧back\n"


def test_coloured_output_keeps_its_own_colours_and_not_the_texts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm-256color")
    told = io.StringIO()
    console = EscapedConsole(file=told, force_terminal=True, color_system="standard")
    from rich.panel import Panel
    from rich.text import Text

    console.print(Panel(Text(f"evil {ACTS}", style="red")), style="bold")
    drawn = told.getvalue()
    assert "\x1b[1;31m" in drawn
    assert not ACTING_CHARACTER.search(re.sub(r"\x1b\[[0-9;]*m", "", drawn))


@pytest.mark.parametrize("name", ["a\u202eb.md", "a\x85b.md", "a\u2066b/c.md", "a\u2028b.md"])
async def test_no_new_page_gets_a_name_that_shows_another_one(name: str, tmp_path: Path) -> None:
    made = Settings(kb=write(tmp_path / "kb", PAGES), state_dir=tmp_path / "state")
    async with open_app(await let_in(made), indexing=False) as app, Client(app.server) as host:
        merged = await host.call_tool("kb_merge", {"path": name, "content": "# New\n"})
        read = await host.call_tool("kb_read", {"path": "ends.md"})
        moved = await host.call_tool("kb_move", {"path": "ends.md", "to": name})
        for refused in (merged, moved):
            assert refused.is_error
            assert "a control or bidirectional character" in str(refused.content)
        assert read.structured_content is not None
        old = await host.call_tool("kb_read", {"path": "evil\u202edm.md"})
        assert not old.is_error
        away = await host.call_tool("kb_move", {"path": "evil\u202edm.md", "to": "deploy.md"})
        assert not away.is_error, away.content
    assert not (made.kb / name).exists()


async def test_no_host_gets_one_either(settings: Settings) -> None:
    async with open_state(settings) as state:
        with pytest.raises(BadHostName):
            await enrol(state, "laptop\u202e", now=utc_now())
