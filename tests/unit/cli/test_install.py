"""One command connects a host, keeps its owner's entries, asks one question, and can be undone."""

from __future__ import annotations

import argparse
import importlib.metadata
import json
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import anyio
import pytest

from mcp_server.__main__ import main
from mcp_server.app.knowledge_base import open_state, utc_now
from mcp_server.app.settings.environment import HOST_VARIABLES
from mcp_server.app.settings.loader import load
from mcp_server.app.settings.settings import Settings
from mcp_server.cli.server import install as verb
from mcp_server.cli.server.install import (
    QUESTION,
    InstallRequest,
    Means,
    install,
    launch_of_this_program,
    with_database,
    with_file,
)
from mcp_server.cli.terminal.console import stderr_console
from mcp_server.cli.terminal.output import ask_yes_no, print_json
from mcp_server.gate.host_registration import Principal, identify, os_user
from mcp_server.gate.trust.scores import trust_record_of
from mcp_server.hosts.catalogue import HOSTS, HostMachine, host_named
from mcp_server.hosts.entry import MASKED, Launch, Served, masked, server_entry
from mcp_server.hosts.files import backups
from mcp_server.hosts.json_edit import members

SOMEONES = '{\n  // mine\n  "theme": "dark",\n  "mcpServers": {\n    "other": {"command": "x"}, // keep\n  },\n}\n'
PLATFORMS = ("darwin", "win32", "linux")
ENTRIES: Mapping[str, tuple[str, Mapping[str, str]]] = {
    "claude-desktop": ("mcpServers", {}),
    "claude-code": ("mcpServers", {"type": "stdio"}),
    "cursor": ("mcpServers", {"type": "stdio"}),
    "vscode": ("servers", {"type": "stdio"}),
}
"""For each host, the key of its list of servers and what an entry says besides command, arguments and environment."""


@dataclass
class World:
    """A machine with a home, a knowledge base, and a person who answers; records the questions to the gate."""

    root: Path
    platform: str = "linux"
    answer: bool | None = None
    enrolled: list[str] = field(default_factory=list)
    granted: list[tuple[str, int]] = field(default_factory=list)
    asked: list[str] = field(default_factory=list)
    proposed: list[bool] = field(default_factory=list)
    forms: list[bool] = field(default_factory=list)
    services: tuple[str, ...] = ()
    vouched: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        (self.root / "work").mkdir()
        self.base("kb")

    def base(self, name: str) -> Path:
        folder = self.root / name
        folder.mkdir(parents=True, exist_ok=True)
        return folder

    def place(self) -> HostMachine:
        return HostMachine(self.platform, self.root / "home", self.root / "work", {})

    def means(self) -> Means:
        def enrol(host: str, forms: bool) -> str:  # noqa: FBT001 - as it is called
            self.enrolled.append(host)
            self.forms.append(forms)
            return f"secret-{len(self.enrolled)}"

        def ask(question: str, proposed: bool) -> bool | None:  # noqa: FBT001 - as it is called
            self.asked.append(question)
            self.proposed.append(proposed)
            return self.answer

        launch = Launch("/venv/bin/knowledge-forge")
        grant = lambda host, level: self.granted.append((host, level))  # noqa: E731 - one line of a table
        return Means(self.place(), launch, enrol, grant, ask, lambda: self.services, self.vouched.append)

    def run(self, host: str = "cursor", **asked: Any) -> int:
        return install(InstallRequest(**{"host": host, "kb": self.root / "kb", **asked}), self.means())

    def file(self, host: str = "cursor", *, project: bool = False) -> Path:
        known = host_named(host)
        assert known is not None
        file = known.config_file(self.place(), project=project)
        assert file is not None
        return file

    def write(self, text: str, host: str = "cursor") -> Path:
        file = self.file(host)
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(text.encode())
        return file


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path)


def servers(file: Path, key: str = "mcpServers") -> dict[str, Any]:
    found = members(file.read_bytes().decode(), ()).get(key)
    assert isinstance(found, dict)
    return found


def test_installing_asks_about_each_untrusted_service_and_no_is_the_default(
    world: World,
) -> None:
    world.services = ("plane", "zulip")
    assert world.run() == 0
    assert [question.partition(" ")[0] for question in world.asked[2:]] == ["Plane", "Zulip"]
    assert "trust everyone who can write there" in world.asked[2]
    assert world.vouched == []
    world.answer = True
    assert world.run() == 0
    assert world.vouched == ["plane", "zulip"]


@pytest.mark.parametrize("edit", [True, False])
def test_with_the_rights_given_as_options_nothing_is_asked(world: World, *, edit: bool) -> None:
    world.services, world.answer = ("plane",), True
    assert world.run(edit=edit) == 0
    assert (world.asked, world.vouched) == ([], [])
    assert world.run(edit=edit, places=("plane:KB",)) == 0
    assert world.vouched == ["plane:KB"]


def test_every_host_is_tried() -> None:
    assert list(ENTRIES) == [host.id for host in HOSTS], "add the new host to ENTRIES, as its vendor documents it"


@pytest.mark.parametrize("platform", PLATFORMS)
@pytest.mark.parametrize("host", ENTRIES)
def test_a_host_that_had_no_file_gets_one_that_starts_us(world: World, host: str, platform: str) -> None:
    world.platform = platform
    assert world.run(host) == 0
    list_key, typed = ENTRIES[host]
    assert json.loads(world.file(host).read_text(encoding="utf-8")) == {
        list_key: {
            "knowledge-forge": {
                **typed,
                "command": "/venv/bin/knowledge-forge",
                "args": ["serve", "--kb", str(world.root / "kb")],
                "env": {"FORGE_ENROLMENT": "secret-1"},
            }
        }
    }
    assert world.enrolled == [host]


def test_existing_entries_stay_and_undo_restores_every_byte(world: World) -> None:
    file = world.write(SOMEONES)
    assert world.run() == 0
    assert list(servers(file)) == ["other", "knowledge-forge"]
    assert [copy.read_bytes().decode() for copy in backups(file)] == [SOMEONES]
    assert world.run(undo=True) == 0
    assert file.read_bytes().decode() == SOMEONES


@pytest.mark.parametrize("before", ["{}", '{"mcpServers": {}}', '{\r\n\t"theme": "dark"\r\n}\r\n', SOMEONES])
def test_undo_after_any_number_of_installs_leaves_the_file_unchanged(world: World, before: str) -> None:
    file = world.write(before)
    assert [world.run() for _ in range(3)] == [0, 0, 0]
    assert len(backups(file)) == 1, "our own entry needs no further copy"
    assert world.run(undo=True) == 0
    assert file.read_bytes().decode() == before
    assert "secret" not in "".join(p.read_text(encoding="utf-8") for p in file.parent.iterdir())


def test_undo_keeps_later_changes_of_others(world: World) -> None:
    file = world.write("{}")
    world.run()
    text = file.read_text(encoding="utf-8").replace('"mcpServers": {', '"mcpServers": {\n    "later": {},')
    file.write_text(text, encoding="utf-8")
    assert world.run(undo=True) == 0
    assert json.loads(file.read_text(encoding="utf-8")) == {"mcpServers": {"later": {}}}


def test_undo_names_what_it_does_not_revoke(world: World, capsys: pytest.CaptureFixture[str]) -> None:
    world.write("{}")
    world.run()
    capsys.readouterr()
    assert world.run(undo=True) == 0
    said = capsys.readouterr()
    assert "no longer starts knowledge-forge" in said.out
    assert "cursor stays registered" in said.err
    assert f"knowledge-forge trust --kb {world.root / 'kb'} grant cursor 2" in said.err
    assert "Restart Cursor" in said.err


def test_undo_without_an_entry_is_done_already(world: World, capsys: pytest.CaptureFixture[str]) -> None:
    assert world.run(undo=True) == 0
    assert not world.file().exists()
    assert "no entry" in capsys.readouterr().err


def test_undo_of_another_knowledge_base_is_refused_and_names_it(
    world: World, capsys: pytest.CaptureFixture[str]
) -> None:
    world.run()
    before = world.file().read_bytes()
    assert world.run(undo=True, kb=world.base("other")) == 1
    assert world.file().read_bytes() == before
    assert f"--undo --kb {world.root / 'kb'}" in capsys.readouterr().err


def test_undo_works_when_the_knowledge_base_is_gone(world: World) -> None:
    world.run()
    (world.root / "kb").rmdir()
    assert world.run(undo=True) == 0
    assert "knowledge-forge" not in world.file().read_text(encoding="utf-8")


def test_a_second_knowledge_base_gets_its_own_entry(world: World) -> None:
    world.run()
    world.run(kb=world.base("Team Wiki"))
    world.run(kb=world.base("b/Team Wiki"), state_dir=world.root / "state")
    found = servers(world.file())
    assert list(found) == ["knowledge-forge", "knowledge-forge-team-wiki", "knowledge-forge-team-wiki-2"]
    assert found["knowledge-forge-team-wiki-2"]["args"][-2:] == ["--state-dir", str(world.root / "state")]
    assert world.run(undo=True, kb=world.root / "Team Wiki") == 0
    assert list(servers(world.file())) == ["knowledge-forge", "knowledge-forge-team-wiki-2"]


def test_the_same_knowledge_base_again_gets_a_new_secret_and_no_second_entry(world: World) -> None:
    world.run()
    (world.root / "link").symlink_to(world.root / "kb")
    world.run(kb=world.root / "link")
    found = servers(world.file())
    assert list(found) == ["knowledge-forge"]
    assert found["knowledge-forge"]["env"] == {"FORGE_ENROLMENT": "secret-2"}


@pytest.mark.parametrize(("answer", "granted"), [(True, [("cursor", 3)]), (False, []), (None, [])])
def test_two_questions_are_asked_and_only_yes_grants(
    world: World, capsys: pytest.CaptureFixture[str], *, answer: bool | None, granted: list[tuple[str, int]]
) -> None:
    world.answer = answer
    assert world.run() == 0
    assert [world.asked[0], len(world.asked)] == [QUESTION, 2]
    assert world.granted == granted
    assert world.forms == [answer is True]
    said = capsys.readouterr()
    assert (f"knowledge-forge trust --kb {world.root / 'kb'} grant cursor 3" in said.out) is (answer is not True)
    assert "Restart Cursor" in said.err
    assert "secret-1" not in said.out + said.err


@pytest.mark.parametrize(("platform", "quote"), [("linux", "'"), ("win32", '"')])
def test_the_command_to_grant_later_can_be_pasted(
    world: World, capsys: pytest.CaptureFixture[str], platform: str, quote: str
) -> None:
    """Trust is kept per knowledge base: without its folder the grant would land elsewhere."""
    world.platform = platform
    assert world.run(kb=world.base("Team Wiki"), state_dir=world.root / "state") == 0
    kb, state = f"{quote}{world.root / 'Team Wiki'}{quote}", world.root / "state"
    assert f"knowledge-forge trust --kb {kb} --state-dir {state} grant cursor 3\n" in capsys.readouterr().out


@pytest.mark.parametrize(("edit", "granted"), [(True, [("cursor", 3)]), (False, [])])
def test_an_answer_in_the_command_is_not_asked_for(world: World, *, edit: bool, granted: list[tuple[str, int]]) -> None:
    assert world.run(edit=edit) == 0
    assert world.asked == []
    assert (world.granted, world.forms) == (granted, [False])


@pytest.mark.parametrize(("host", "proposed"), [("cursor", True), ("vscode", True), ("claude-code", False)])
def test_a_yes_to_forms_is_proposed_for_hosts_only_that_are_known_to_show_them_to_a_person(
    world: World, capsys: pytest.CaptureFixture[str], host: str, *, proposed: bool
) -> None:
    assert world.run(host) == 0
    found = host_named(host)
    assert found is not None
    assert found.about_forms in world.asked[1]
    assert world.proposed == [False, proposed]
    assert world.forms == [False]  # nobody could be asked
    assert f"trust --kb {world.root / 'kb'} forms {host} on" in capsys.readouterr().out


@pytest.mark.parametrize("forms", [True, False])
def test_forms_that_were_answered_for_in_the_command_are_not_asked_for(world: World, *, forms: bool) -> None:
    world.answer = not forms
    assert world.run(forms=forms) == 0
    assert world.run(forms=forms, edit=True) == 0
    assert world.asked == [QUESTION]
    assert world.forms == [forms, forms]


def test_print_shows_the_entry_and_changes_nothing(world: World, capsys: pytest.CaptureFixture[str]) -> None:
    file = world.write(SOMEONES)
    world.run()
    before = file.read_bytes()
    capsys.readouterr()
    assert world.run(show=True) == 0
    assert file.read_bytes() == before
    assert len(world.enrolled) == 1, "enrolling again would end the secret that is in use"
    said = capsys.readouterr()
    entry = json.loads(said.out)["mcpServers"]["knowledge-forge"]
    assert entry["env"] == {"FORGE_ENROLMENT": MASKED}
    assert str(file) in said.err


def test_print_with_the_question_answered_enrols_and_shows_the_secret(
    world: World, capsys: pytest.CaptureFixture[str]
) -> None:
    assert world.run(show=True, edit=True) == 0
    said = capsys.readouterr()
    assert json.loads(said.out)["mcpServers"]["knowledge-forge"]["env"] == {"FORGE_ENROLMENT": "secret-1"}
    assert (world.enrolled, world.granted) == (["cursor"], [("cursor", 3)])
    assert not world.file().exists()
    assert "secret-1" not in said.err


def test_a_project_has_its_own_file_and_its_own_name(world: World, capsys: pytest.CaptureFixture[str]) -> None:
    """If two files had one name, the second installation would end the first one's secret."""
    assert world.run("claude-code") == world.run("claude-code", project=True, edit=True) == 0
    assert world.enrolled == ["claude-code", "claude-code.work"]
    assert world.granted == [("claude-code.work", 3)]
    assert servers(world.root / "work" / ".mcp.json")["knowledge-forge"]["env"] == {"FORGE_ENROLMENT": "secret-2"}
    assert "keep it out of version control" in capsys.readouterr().err


def test_an_impossible_option_is_refused_with_the_possible_ones(
    world: World, capsys: pytest.CaptureFixture[str]
) -> None:
    assert world.run("emacs") == 2
    assert ", ".join(host.id for host in HOSTS) in capsys.readouterr().err
    assert world.run("claude-desktop", project=True) == 2
    assert "leave out --project" in capsys.readouterr().err
    assert world.run(kb=world.root / "absent") == 2
    assert "--kb DIR" in capsys.readouterr().err
    assert world.enrolled == []


@pytest.mark.parametrize(
    "text",
    [
        "{",
        "[]",
        '{"mcpServers": []}',
        '{"mcpServers": null}',
        '{"mcpServers": {}, "mcpServers": {}}',
        '{"a": 1}}',
        "\x00",
    ],
)
@pytest.mark.parametrize("asked", [{}, {"undo": True}, {"show": True}], ids=str)
def test_an_unexpected_file_is_left_alone(
    world: World, capsys: pytest.CaptureFixture[str], text: str, asked: dict[str, Any]
) -> None:
    file = world.write(text)
    assert world.run(**asked) == 1
    assert file.read_bytes().decode() == text
    assert [p.name for p in file.parent.iterdir()] == [file.name]
    assert [world.enrolled, world.granted, world.asked] == [[], [], []]
    assert f"{file} was not changed" in capsys.readouterr().err


def test_our_doubled_entry_is_left_to_the_person(world: World) -> None:
    world.run()
    entry = json.dumps(servers(world.file())["knowledge-forge"])
    file = world.write(f'{{"mcpServers": {{"knowledge-forge": {entry}, "knowledge-forge": {entry}}}}}')
    before = file.read_bytes()
    assert world.run() == world.run(undo=True) == 1
    assert file.read_bytes() == before
    assert len(world.enrolled) == 1


def test_the_entry_is_made_in_the_file_as_the_host_left_it_during_the_question(world: World) -> None:
    file = world.write("{}")
    means = world.means()

    def ask(_: str, _proposed: bool) -> bool:  # noqa: FBT001 - as it is called
        file.write_text('{"numStartups": 7}', encoding="utf-8")
        return False

    assert install(InstallRequest("cursor", world.root / "kb"), replace(means, ask=ask)) == 0
    found = json.loads(file.read_text(encoding="utf-8"))
    assert found["numStartups"] == 7
    assert "knowledge-forge" in found["mcpServers"]


def test_a_write_that_fails_after_enrolling_says_that_the_old_secret_is_gone(
    world: World, capsys: pytest.CaptureFixture[str]
) -> None:
    file = world.write("{}")
    means = world.means()

    def enrol(host: str, forms: bool) -> str:  # noqa: FBT001 - as it is called
        file.write_text("{ broken meanwhile", encoding="utf-8")
        return means.enrol(host, forms)

    assert install(InstallRequest("cursor", world.root / "kb", edit=True), replace(means, enrol=enrol)) == 1
    assert file.read_text(encoding="utf-8") == "{ broken meanwhile"
    assert world.granted == []
    said = capsys.readouterr().err
    assert "the earlier one no longer works" in said
    assert "line 1, column 3" in said


def test_the_gate_knows_the_secret_that_was_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The complete path: command line, real state database, real file."""
    (tmp_path / "kb").mkdir()
    monkeypatch.setattr(Path, "home", lambda: tmp_path / "home")
    for name in HOST_VARIABLES:
        monkeypatch.delenv(name, raising=False)
    settings = Settings(kb=tmp_path / "kb", state_dir=tmp_path / "state")
    parser = argparse.ArgumentParser()
    verb.arguments(parser)

    assert verb.run(parser.parse_args(["claude-code", "--yes-edit"]), settings) == 0

    capsys.readouterr()
    entry = servers(tmp_path / "home" / ".claude.json")["knowledge-forge"]
    assert entry["args"][-2:] == ["--state-dir", str(tmp_path / "state")]

    async def look() -> tuple[Principal, float]:
        async with open_state(settings) as state:
            principal = await identify(state, os_user(), entry["env"]["FORGE_ENROLMENT"])
            return principal, (await trust_record_of(state, principal, now=utc_now())).floor

    assert anyio.run(look) == (Principal(os_user(), "claude-code"), 3.0)


def test_json_answers_carry_no_secret(world: World, capsys: pytest.CaptureFixture[str]) -> None:
    world.write("{}")
    assert world.run(json=True, edit=True) == 0
    answer = json.loads(capsys.readouterr().out)
    assert answer == {
        "host": "cursor",
        "file": str(world.file()),
        "server": "knowledge-forge",
        "kb": str(world.root / "kb"),
        "backup": str(world.file()) + ".bak-knowledge-forge-1",
        "granted": 3,
        "forms": False,
    }
    assert world.run(json=True, undo=True) == 0
    assert json.loads(capsys.readouterr().out)["removed"] == "knowledge-forge"
    assert world.run(json=True, undo=True) == 0
    assert json.loads(capsys.readouterr().out)["removed"] is None


def test_contradictory_arguments_are_refused(capsys: pytest.CaptureFixture[str]) -> None:
    parser = argparse.ArgumentParser()
    verb.arguments(parser)
    parsed = parser.parse_args(["cursor", "--print", "--no-edit"])
    assert (parsed.show, parsed.undo, parsed.edit) == (True, False, False)
    assert parser.parse_args(["cursor"]).edit is None
    for wrong in (["--print", "--undo"], ["--yes-edit", "--no-edit"]):
        with pytest.raises(SystemExit) as stopped:
            parser.parse_args(["cursor", *wrong])
        assert stopped.value.code == 2
    capsys.readouterr()


def test_hosts_start_the_script_beside_the_interpreter(tmp_path: Path) -> None:
    interpreter = tmp_path / "python3"
    for name in ("knowledge-forge.exe", "knowledge-forge"):
        (tmp_path / name).touch()
        assert launch_of_this_program(str(interpreter)) == Launch(str(tmp_path / name))


def test_without_a_script_the_module_is_started_and_found_from_anywhere(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def absent(_: str) -> None:
        raise importlib.metadata.PackageNotFoundError

    monkeypatch.setattr(importlib.metadata, "distribution", absent)
    (tmp_path / "bin").mkdir()
    launch = launch_of_this_program(str(tmp_path / "bin" / "python"))
    assert launch.arguments == ("-P", "-m", "mcp_server")
    code = "import mcp_server; print(mcp_server.__name__)"
    found = subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path, env=launch.environ, capture_output=True, text=True, check=True
    )
    assert found.stdout.strip() == "mcp_server"


def test_a_yes_is_a_yes_and_silence_is_not(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    import io

    for typed, answer in {
        "y\n": True,
        "YES\n": True,
        "n\n": False,
        "\n": False,
        "": None,
        "perhaps\ny\n": True,
    }.items():
        monkeypatch.setattr(sys, "stdin", io.StringIO(typed))
        assert ask_yes_no("Sure?", stdin_is_tty=True) is answer
    monkeypatch.setattr(sys, "stdin", io.StringIO("y\n"))
    assert ask_yes_no("Sure?", stdin_is_tty=False) is None
    said = capsys.readouterr()
    assert said.out == "", "stdout carries only the answer"
    assert said.err.startswith("Sure? [y/N] ")


def test_remarks_are_on_stderr_and_without_colour_where_none_is_wanted(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """no-color.org."""
    monkeypatch.setenv("NO_COLOR", "1")
    monkeypatch.setenv("FORCE_COLOR", "1")
    stderr_console().print("[1/2] /a/[b]", style="red")
    assert capsys.readouterr() == ("", "[1/2] /a/[b]\n")


def test_json_survives_a_terminal_without_unicode(monkeypatch: pytest.MonkeyPatch) -> None:
    import io

    for encoding, shown in {"utf-8": "ü", "cp437": "\\u00fc", "ascii": "\\u00fc"}.items():
        held = io.BytesIO()
        out = io.TextIOWrapper(held, encoding=encoding)
        monkeypatch.setattr(sys, "stdout", out)
        print_json("ü")
        out.flush()
        assert held.getvalue().decode(encoding).strip() == f'"{shown}"'


NAMED_HERE = ("PLANE_API_KEY", "PLANE_BASE_URL", "PLANE_READ_ONLY")


@pytest.mark.parametrize("show", [True, False])
def test_settings_of_services_in_this_terminal_are_named_and_not_copied(
    world: World, capsys: pytest.CaptureFixture[str], *, show: bool
) -> None:
    """A key in one more file is one more place where it can be read, so a person decides."""
    assert world.run(not_carried=NAMED_HERE, show=show) == 0
    said = capsys.readouterr()
    assert "Cursor does not see PLANE_API_KEY, PLANE_BASE_URL and PLANE_READ_ONLY of this terminal" in said.err
    assert "forge.toml" in said.err
    assert str(world.file()) in said.err
    if not show:
        entry = servers(world.file())["knowledge-forge"]
        assert set(entry["env"]) == {"FORGE_ENROLMENT"}


def test_a_language_model_of_this_terminal_is_named_with_its_own_variables_and_those_of_no_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "kb").mkdir()
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))
    keys = {"OPENAI_API_KEY": "sk-one-0123456789", "ANTHROPIC_API_KEY": "sk-two-0123456789"}
    for name, text in {**keys, "FORGE_RUN_TOKENS": "5000"}.items():
        monkeypatch.setenv(name, text)
    printing = ["install", "cursor", "--print", "--kb", str(tmp_path / "kb"), "--state-dir", str(tmp_path / "state")]
    assert main(printing) == 0
    assert "_API_KEY" not in capsys.readouterr().err, "without FORGE_MODEL they are other programs'"
    monkeypatch.setenv("FORGE_MODEL", "openai:some-model")
    assert main(printing) == 0
    said = capsys.readouterr()
    assert "Cursor does not see FORGE_MODEL, OPENAI_API_KEY and FORGE_RUN_TOKENS of this terminal" in said.err
    assert not [key for key in keys.values() if key in said.out + said.err]


def test_a_persons_additions_to_the_entry_stay_and_are_not_asked_for_again(
    world: World, capsys: pytest.CaptureFixture[str]
) -> None:
    assert world.run() == 0
    text = world.file().read_text(encoding="utf-8")
    text = text.replace('"FORGE_ENROLMENT"', '"PLANE_API_KEY": "a-key", "FORGE_ENROLMENT"')
    world.file().write_text(text, encoding="utf-8")
    capsys.readouterr()
    assert world.run(not_carried=("PLANE_API_KEY",)) == 0
    said = capsys.readouterr()
    assert servers(world.file())["knowledge-forge"]["env"]["PLANE_API_KEY"] == "a-key"
    assert "PLANE_API_KEY" not in said.err
    assert "a-key" not in said.out + said.err


def test_a_host_gets_the_path_of_the_settings_file_used_here(tmp_path: Path) -> None:
    """It may have a different home or XDG_CONFIG_HOME from this terminal."""
    (tmp_path / "forge.toml").write_text(
        'plane_base_url = "https://plane.example.com"\nplane_api_key = "a-key"\nplane_workspace = "acme"\n',
        encoding="utf-8",
    )
    environ = {"FORGE_CONFIG": str(tmp_path / "forge.toml"), "ZULIP_API_KEY": "another-key"}
    settings = load({"kb": tmp_path}, environ, cwd=tmp_path)
    entry = server_entry(with_file(Launch("knowledge-forge"), settings), Served("/kb"), "the secret", typed=False)
    assert entry["env"] == {"FORGE_CONFIG": str(tmp_path / "forge.toml"), "FORGE_ENROLMENT": "the secret"}
    assert masked(entry)["env"] == {"FORGE_CONFIG": str(tmp_path / "forge.toml"), "FORGE_ENROLMENT": MASKED}
    assert load({}, {"FORGE_CONFIG": str(tmp_path / "forge.toml")}, cwd=tmp_path.parent).plane is not None
    assert settings.in_environment == ("ZULIP_API_KEY",)


def test_which_file_the_host_reads_its_settings_from_is_said(world: World, capsys: pytest.CaptureFixture[str]) -> None:
    means = world.means()
    launch = Launch("/venv/bin/knowledge-forge", environ={"FORGE_CONFIG": "/home/ann/forge.toml"})
    assert install(InstallRequest(host="cursor", kb=world.root / "kb"), replace(means, launch=launch)) == 0
    assert "settings    /home/ann/forge.toml" in capsys.readouterr().out
    assert world.run() == 0
    assert "settings" not in capsys.readouterr().out


def test_a_file_that_makes_a_server_of_http_leaves_a_host_its_standard_streams(tmp_path: Path) -> None:
    """Every server of this account reads the configuration folder, so leaving the key out of the entry would not help."""
    launch, file = Launch("knowledge-forge"), tmp_path / "forge.toml"
    assert with_file(launch, load({}, {}, cwd=tmp_path)) == launch
    file.write_text('http = "127.0.0.1:8321"\nread_only = true\n', encoding="utf-8")
    named = with_file(launch, load({}, {"FORGE_CONFIG": str(file)}, cwd=tmp_path)).environ
    assert named == {"FORGE_CONFIG": str(file), "FORGE_HTTP": "stdio"}
    settings = load({}, named, cwd=tmp_path.parent)
    assert settings.http is None
    assert settings.read_only


def test_a_host_gets_the_database_that_knows_its_secret(tmp_path: Path) -> None:
    """Without it the host's server would have its own state, in which the secret is unknown."""
    settings = Settings(kb=tmp_path, database_url="postgresql://u:p@db/forge", database_schema="notes")
    launch = with_database(Launch("knowledge-forge", environ={"PYTHONPATH": "/src"}), settings)
    entry = server_entry(launch, Served("/kb"), "the secret", typed=False)
    assert entry["env"] == {
        "PYTHONPATH": "/src",
        "FORGE_DATABASE_URL": "postgresql://u:p@db/forge",
        "FORGE_DATABASE_SCHEMA": "notes",
        "FORGE_ENROLMENT": "the secret",
    }
    assert "p@db" not in str(masked(entry))
    assert with_database(launch, Settings(kb=tmp_path)) == launch


def test_the_entrys_earlier_variables_are_kept_and_named(world: World, capsys: pytest.CaptureFixture[str]) -> None:
    """In a cloned project someone else may have written it: it gets a secret now, so a person must see its contents."""
    kept = {"FORGE_EMBEDDER_URL": "http://x/v1", "FORGE_ENROLMENT": "old"}
    entry = {"command": "knowledge-forge", "args": ["serve", "--kb", str(world.root / "kb"), "--http", "127.0.0.1:1"]}
    file = world.file(project=True)
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(json.dumps({"mcpServers": {"knowledge-forge": {**entry, "env": kept}}}), encoding="utf-8")
    assert world.run(project=True) == 0
    assert "Kept from the entry that was there: FORGE_EMBEDDER_URL and --http." in capsys.readouterr().err
    assert world.run(host="vscode", project=True) == 0
    assert "Kept from" not in capsys.readouterr().err


def test_everything_in_the_entry_is_absolute(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A host starts in its own folder, and may have a different home or XDG_STATE_HOME from the terminal."""
    (tmp_path / "work" / "notes").mkdir(parents=True)
    file = tmp_path / "work" / "my.toml"
    file.write_text("answer_tokens = 900\n", encoding="utf-8")
    monkeypatch.chdir(tmp_path / "work")
    for name, value in {"HOME": tmp_path, "XDG_STATE_HOME": tmp_path / "state", "FORGE_CONFIG": file}.items():
        monkeypatch.setenv(name, str(value))
    assert main(["install", "cursor", "--no-edit", "--kb", "notes"]) == 0
    entry = json.loads((tmp_path / ".cursor" / "mcp.json").read_text(encoding="utf-8"))["mcpServers"]["knowledge-forge"]
    serve, kb, folder, state, place = entry["args"][-5:]
    assert Path(entry["command"]).is_absolute()
    assert (serve, kb, folder, state) == ("serve", "--kb", str(tmp_path / "work" / "notes"), "--state-dir")
    assert (Path(place) / "state.db").is_file()
    assert Path(place).is_relative_to(tmp_path / "state")
    assert entry["env"]["FORGE_CONFIG"] == str(file)
    assert main(["install", "cursor", "--undo", "--kb", "notes"]) == 0
    assert "knowledge-forge" not in (tmp_path / ".cursor" / "mcp.json").read_text(encoding="utf-8")
