"""What others wrote, in a terminal: whichever verb shows it, it neither acts nor turns text round, and JSON stays JSON."""

from __future__ import annotations

import io
import json
import re
from pathlib import Path

import pytest
from mcp import Client

from knowledge.paths import ACTING
from mcp_server.__main__ import main
from mcp_server.app import open_app
from mcp_server.base import open_state, utc_now
from mcp_server.cli.terminal import drawing
from mcp_server.cli.visible import Seen, harmless
from mcp_server.gate.enrolment import BadHostName, enrol
from mcp_server.settings import Settings
from tests.knowledge_bases import write
from tests.writers import let_in

ACTS = "\x1b]0;owned\x07\x1b[2J\x9b2J\u202egnp.exe\u2066\u2069\u200f\x7f\u2028"
ACTING_CHARACTER = re.compile(f"[{ACTING}]")
PAGES = {
    "_index.md": f"---\ntitle: Root {ACTS.replace(chr(0x2028), '')}\nsummary: Sum {ACTS}\n---\n# Root\n",
    "evil\u202edm.md": f"# Deploy {ACTS}\n\nBack off for forty minutes {ACTS}.\n\n## Part {ACTS}\n\ntext\n",
    "ends.md": "# Ends\r\n\r\nWindows lines.\r\n",
}
VERBS = [
    ["map"],
    ["map", "--json"],
    ["read", "evil\u202edm.md"],
    ["read", "evil\u202edm.md", "--json"],
    ["read", "evil\u202edm.md", "--outline"],
    ["search", "forty minutes"],
    ["search", "forty minutes", "--json"],
    ["index"],
    ["doctor"],
    ["doctor", "--json"],
    ["read", "no\u202esuch\x1b[2J"],
    ["trust", "list"],
    ["audit", "export"],
    [f"no{ACTS}verb"],
    ["read", f"--{ACTS}"],
]


@pytest.fixture(scope="module")
def settings(tmp_path_factory: pytest.TempPathFactory) -> Settings:
    folder = tmp_path_factory.mktemp("hostile")
    return Settings(kb=write(folder / "kb", PAGES), state_dir=folder / "state")


@pytest.mark.parametrize("words", VERBS, ids=lambda words: ascii(" ".join(words))[:40])
def test_no_verb_lets_a_text_act_on_the_terminal(
    words: list[str], settings: Settings, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    places = [] if words[0].startswith("no") else ["--kb", str(settings.kb), "--state-dir", str(settings.state_dir)]
    try:
        main([*words, *places])
    except SystemExit as left:
        assert left.code == 2  # noqa: PT017 - argparse leaves so; most verbs return
    told = capsys.readouterr()
    for said in told:
        assert not ACTING_CHARACTER.search(said.replace("\r\n", "\n")), ascii(said)
    if "--json" in words:
        whole = json.dumps(json.loads(told.out), ensure_ascii=False)
        assert "\u202e" in whole or words[0] == "doctor"


def test_a_mark_names_the_character_and_line_ends_stay() -> None:
    assert harmless("a\x1b[2Jb\u202ec\td\n\r\n") == "a⟦U+001B⟧[2Jb⟦U+202E⟧c\td\n\r\n"
    told = io.StringIO(newline="")
    print("Windows lines\r", file=Seen(told))
    print("over", "\rwritten", sep="", file=Seen(told))
    seen = Seen(told)
    seen.write("held\r")
    seen.write("back\n")
    assert told.getvalue() == "Windows lines\r\nover⟦U+000D⟧written\nheld⟦U+000D⟧back\n"


def test_what_is_drawn_in_colour_keeps_its_colour_and_not_the_texts_own(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm-256color")
    told = io.StringIO()
    console = drawing(file=told, force_terminal=True, color_system="standard")
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
