"""Every command of the pages on backup, upgrade, exports and uninstall, run as it is written, by a shell, in a new home folder."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from contextlib import redirect_stdout
from io import StringIO
from pathlib import Path
from unittest.mock import patch

import pytest

from mcp_server.__main__ import main
from tests.support.knowledge_bases.folders import PAGES, write

ROOT = Path(__file__).parents[3]
GUIDES = ROOT / "kb" / "guides"
CHECKOUT = "knowledge-forge"
NOTHING_FOUND = {"knowledge-forge runs list --kb ~/notes": 1}
"""Commands with the exit code that means an empty list."""
OTHERS = (".cache/", ".rustup/")
"""Where pip, and the programs that it asks for their version, keep files."""

pytestmark = pytest.mark.skipif(os.name == "nt", reason="the commands are those of a POSIX shell")


def commands(page: str) -> list[str]:
    """Return the commands of the page's console blocks."""
    text = (GUIDES / page).read_text(encoding="utf-8")
    blocks = re.findall(r"```console\n(.*?)```", text, re.DOTALL)
    return [line.removeprefix("$ ") for block in blocks for line in block.splitlines() if line.startswith("$ ")]


class Home:
    """A person's home folder with notes and a host, and a shell that finds the program."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.bin = folder, folder / ".bin"
        self.bin.mkdir(parents=True)
        program = self.bin / "knowledge-forge"
        program.write_text(f'#!/bin/sh\nPYTHONPATH={ROOT} exec {sys.executable} -m mcp_server "$@"\n', encoding="utf-8")
        program.chmod(0o755)
        write(folder / "notes")
        for words in (["enroll", "cursor"], ["trust", "grant", "cursor", "3"]):
            with patch.dict(os.environ, self.environment, clear=True), redirect_stdout(StringIO()):
                assert main([*words, "--kb", str(folder / "notes")]) == 0

    @property
    def environment(self) -> dict[str, str]:
        return {
            "HOME": str(self.folder),
            "PATH": f"{self.bin}:{os.environ['PATH']}",
            "XDG_STATE_HOME": str(self.folder / ".local" / "state"),
            "XDG_CONFIG_HOME": str(self.folder / ".config"),
            "PIP_DISABLE_PIP_VERSION_CHECK": "1",
            "LANG": "C.UTF-8",
        }

    def run(self, command: str, code: int = 0) -> str:
        """Run the command in a new shell and return everything that it printed."""
        done = subprocess.run(
            ["/bin/sh", "-c", command],
            env=self.environment,
            cwd=self.folder,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            encoding="utf-8",
            timeout=300,
            check=False,
        )
        assert done.returncode == code, f"{command}\n{done.stdout}{done.stderr}"
        return done.stdout + done.stderr

    def run_page(self, page: str) -> None:
        """Run all commands of the page in order."""
        for command in commands(page):
            self.run(command, NOTHING_FOUND.get(command, 0))

    def install_checkout(self) -> Path:
        """Clone this checkout and install it, as README says, in an environment that has the packages of this one already."""
        clone = self.folder / CHECKOUT
        self.run(f"git clone -q {ROOT} {clone}")
        self.run(f"{sys.executable} -m venv {clone}/.venv")
        (packages,) = clone.glob(".venv/lib/python*/site-packages")
        here = [path for path in sys.path if path.endswith("-packages")]
        (packages / "borrowed.pth").write_text("\n".join(here), encoding="utf-8")
        self.run(f"{clone}/.venv/bin/pip install -q -e {clone}")
        return clone


@pytest.fixture
def home(tmp_path: Path) -> Home:
    return Home(tmp_path / "home")


def test_backup_and_restore(home: Home) -> None:
    home.run_page("back-up-and-restore.md")
    for place in ("notes", "restored/notes"):
        assert "cursor" in home.run(f"knowledge-forge trust list --kb ~/{place}")
        found = {path.relative_to(home.folder / place).as_posix() for path in (home.folder / place).rglob("*.md")}
        assert found == set(PAGES)


@pytest.mark.external
def test_a_lost_machine_is_restored_from_the_two_files(home: Home, tmp_path: Path) -> None:
    page = commands("back-up-and-restore.md")
    for command in page[:3]:
        home.run(command)
    other = Home.__new__(Home)
    other.folder, other.bin = tmp_path / "new machine", home.bin
    other.folder.mkdir()
    shutil.move(home.folder / "backups", other.folder / "backups")
    shutil.rmtree(home.folder / "notes")
    unpack = next(n for n, command in enumerate(page) if command == "mkdir -p ~/restored")
    for command in page[unpack : unpack + 4]:
        other.run(command)
    assert "cursor" in other.run("knowledge-forge trust list --kb ~/restored/notes")


def test_in_and_out(home: Home) -> None:
    home.run_page("in-and-out.md")
    assert {path.name for path in (home.folder / "exports").iterdir()} == {"notes", "notes.jsonl", "site"}


def test_git(home: Home) -> None:
    """The page's commands in order, and between two of them a host makes a page."""
    secret = home.run("knowledge-forge enroll cursor --kb ~/notes 2>/dev/null").split()[-1]
    page = commands("git.md")
    first_look = next(n for n, command in enumerate(page) if " log " in command)
    for command in page[:first_look]:
        home.run(command, NOTHING_FOUND.get(command, 0))
    (home.folder / "coffee.md").write_text("# Coffee\n\nThe beans are on the second shelf.\n", encoding="utf-8")
    home.run(f"{secret} knowledge-forge new guides/coffee --from ~/coffee.md --kb ~/notes")
    home.run("git init -q --bare ~/shared.git && git -C ~/notes remote add origin ~/shared.git")
    home.run("git -C ~/notes push -q --set-upstream origin HEAD")
    told = [home.run(command) for command in page[first_look:]]
    assert "cursor on behalf of" in told[0]
    assert "Forge-Host: cursor" in told[1]
    newest = home.run("git -C ~/notes log -1 --format=%h --abbrev=9").strip()
    assert f"commit {newest}" in told[2]
    assert home.run("git -C ~/notes status --porcelain") == ""


@pytest.mark.external
def test_upgrade(home: Home) -> None:
    home.install_checkout()
    home.run_page("upgrade.md")
    assert "cursor" in home.run("knowledge-forge trust list --kb ~/notes")
    assert (home.folder / "before-upgrade.db").exists()


@pytest.mark.external
def test_uninstall_leaves_the_notes_the_saved_state_and_nothing_else(home: Home) -> None:
    clone = home.install_checkout()
    home.run("knowledge-forge install cursor --kb ~/notes")
    entry = home.folder / ".cursor" / "mcp.json"
    assert "notes" in entry.read_text(encoding="utf-8")
    home.run_page("uninstall.md")
    assert not clone.exists()
    assert "notes" not in entry.read_text(encoding="utf-8")
    left = {path.relative_to(home.folder).as_posix() for path in home.folder.rglob("*") if path.is_file()}
    expected = {".bin/knowledge-forge", ".cursor/mcp.json", "last-state.db", *(f"notes/{page}" for page in PAGES)}
    assert {path for path in left if not path.startswith(OTHERS)} == expected


def test_none_of_the_pages_loses_its_commands() -> None:
    """A page without console blocks would pass the tests above."""
    counts = {page: len(commands(page)) for page in ("back-up-and-restore.md", "git.md", "upgrade.md", "uninstall.md")}
    assert all(count >= 5 for count in counts.values()), counts
