"""Git repositories in temporary folders, which know nothing of the configuration of this machine."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest

PERSON = "Ann Example <ann@example.org>"
PAGES = {
    "notes/plan.md": "# Plan\n\nWe ship on Friday.\n\n## Risks\n\nThe vendor is slow.\n",
    "notes/team.md": "# Team\n\nAnn and Bob.\n",
    "index.md": "# Start\n\nSee the [plan](notes/plan.md).\n",
}
_TEXTS = {"name": "Ann Example", "email": "ann@example.org"}


@dataclass(frozen=True)
class Repository:
    """A working tree, used as a person uses it."""

    folder: Path

    def git(self, *arguments: str, code: int | None = 0, stdin: bytes = b"", **variables: str) -> str:
        """Run git as the person does, and return what it prints; `code` None: it may fail."""
        done = subprocess.run(
            ["git", *arguments],
            cwd=self.folder,
            capture_output=True,
            input=stdin,
            check=False,
            env={**os.environ, "GIT_EDITOR": "true", **variables},
        )
        if code is not None:
            assert done.returncode == code, (arguments, done.stderr.decode(errors="replace"))
        return done.stdout.decode("utf-8", "surrogateescape")

    @property
    def status(self) -> list[str]:
        """The lines of `git status --porcelain`."""
        return self.git("status", "--porcelain").splitlines()

    def log(self, form: str = "%s") -> list[str]:
        """Return the commits of the branch, newest first, each in that form."""
        return [line for line in self.git("log", f"--format={form}%x00").split("\0") if line.strip("\n")]

    def subjects(self) -> list[str]:
        """Return the subjects of the branch's commits, newest first."""
        return [line.strip("\n") for line in self.log("%s")]

    def trailers(self, commit: str = "HEAD") -> dict[str, str]:
        """Return the trailers of a commit as git itself reads them."""
        lines = self.git("log", "-1", "--format=%(trailers:only,unfold)", commit).splitlines()
        return dict(line.split(": ", 1) for line in lines if line)

    def changed(self, commit: str = "HEAD") -> list[str]:
        """Return the paths that a commit changes."""
        return self.git("diff-tree", "-r", "--no-commit-id", "--name-only", commit).splitlines()

    def text(self, path: str, commit: str = "HEAD") -> str:
        """Return a file in a commit."""
        return self.git("show", f"{commit}:{path}")

    def write(self, path: str, text: str) -> None:
        """Save a file as an editor does."""
        file = self.folder / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(text.encode())

    def commit(self, message: str, *paths: str) -> None:
        """Commit these paths, or everything, as the person."""
        self.git("add", "-A", "--", *(paths or (".",)))
        self.git("commit", "-q", "-m", message)


@pytest.fixture
def repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Repository:
    """Return a repository with some pages in one commit."""
    alone(monkeypatch, tmp_path)
    return made(tmp_path / "kb")


def alone(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Keep the configuration of this machine out of every git that the test starts."""
    for name in [name for name in os.environ if name.startswith("GIT_") or name == "EMAIL"]:
        monkeypatch.delenv(name)
    (tmp_path / "gitconfig").write_text("[init]\n\tdefaultBranch = main\n[commit]\n\tgpgSign = false\n")
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", str(tmp_path / "gitconfig"))
    monkeypatch.setenv("GIT_CONFIG_NOSYSTEM", "1")


def made(folder: Path, pages: Mapping[str, str] | None = None, *, person: bool = True) -> Repository:
    """Return a new repository in that folder, with these pages in one commit."""
    repository = Repository(folder)
    folder.mkdir(parents=True, exist_ok=True)
    repository.git("init", "-q")
    for path, text in (PAGES if pages is None else pages).items():
        repository.write(path, text)
    for key, value in _TEXTS.items():
        repository.git("config", f"user.{key}", value)
    repository.commit("Begin")
    if not person:
        for key in _TEXTS:
            repository.git("config", "--unset", f"user.{key}")
    return repository
