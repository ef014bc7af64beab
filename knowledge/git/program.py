"""Runs the `git` program so that nothing in a repository or in the environment makes it wait, ask, sign or call other programs.

Only the filters that `.gitattributes` names run, because a commit without them would not be what `git add` makes.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from knowledge.errors import KnowledgeError

LONGEST_S = 30.0
"""How long one run of git may take. In a repository of 100,000 files none takes a second."""
FIXED = {
    "GIT_LITERAL_PATHSPECS": "1",
    "GIT_NO_LAZY_FETCH": "1",
    "GIT_OPTIONAL_LOCKS": "0",
    "GIT_TERMINAL_PROMPT": "0",
    "LC_ALL": "C",
}
CONFIGURED = (
    # Hooks and the file system monitor are programs: an act that has happened can't be refused, and must not wait for them.
    ("core.hooksPath", os.devnull),
    ("core.fsmonitor", "false"),
    # A folder of the knowledge base that looks like a bare repository brings its own configuration.
    ("safe.bareRepository", "explicit"),
    ("core.safecrlf", "false"),
    ("gc.auto", "0"),
    # Without this, git makes up a name and an address from the account and the machine.
    ("user.useConfigOnly", "true"),
)


class GitFailed(KnowledgeError):
    """A run of git failed. `said` is what it wrote to its error output."""

    def __init__(self, arguments: Sequence[str], said: str) -> None:
        self.said = said.strip()
        lines = self.said.splitlines() or ["it gave no reason"]
        super().__init__(f"git {arguments[0]} failed: {lines[0][:300]}")


class NoGit(KnowledgeError):
    """The program `git` is not installed."""

    def __init__(self) -> None:
        super().__init__("the program git is not installed, or not in PATH")


@dataclass(frozen=True, slots=True)
class GitRun:
    """The exit code, the output, and the error output of a run."""

    code: int
    output: bytes
    said: str = ""

    @property
    def line(self) -> str:
        """The output as a line; names that are not UTF-8 keep their bytes."""
        return os.fsdecode(self.output).removesuffix("\n")


@dataclass(frozen=True, slots=True)
class Git:
    """The program, run in one folder."""

    program: str
    folder: Path
    environment: Mapping[str, str]
    longest_s: float = LONGEST_S
    settings: Sequence[tuple[str, str]] = CONFIGURED
    """Configuration that overrides the repository's and the person's."""

    @classmethod
    def at(cls, folder: Path, environment: Mapping[str, str]) -> Git:
        """Return the program for that folder.

        It runs with these variables, which should hold no secret, and with `FIXED`.

        Raises:
            NoGit: it is not installed.
        """
        program = shutil.which("git", path=environment.get("PATH"))
        if program is None:
            raise NoGit
        return cls(program, folder, environment)

    def run(
        self,
        *arguments: str,
        stdin: bytes = b"",
        index: Path | None = None,
        variables: Mapping[str, str] | None = None,
        codes: Sequence[int] = (0,),
    ) -> GitRun:
        """Run git with these arguments; `index` is used in place of the repository's own index, `variables` come on top.

        Raises:
            GitFailed: it ended with an exit code that is not among `codes`, or did not end in time.
        """
        environment = dict(variables or {})
        if index is not None:
            environment["GIT_INDEX_FILE"] = str(index)
        with self._started(arguments, environment) as process:
            try:
                output, said = process.communicate(stdin, timeout=self.longest_s)
            except BaseException as error:
                _end(process)
                if isinstance(error, subprocess.TimeoutExpired):
                    raise GitFailed(arguments, f"it did not end within {self.longest_s:.0f} seconds") from None
                raise
        if process.returncode not in codes:
            raise GitFailed(arguments, os.fsdecode(said))
        return GitRun(process.returncode, output, os.fsdecode(said))

    @contextmanager
    def moving(self, ref: str, new: str, old: str) -> Iterator[Callable[[], None]]:
        """Hold the lock of a ref that is at `old`; calling the yielded function moves it to `new`. Otherwise it stays.

        Raises:
            GitFailed: the ref is not at `old`, or another git holds its lock.
        """
        arguments = ("update-ref", "-m", "commit: knowledge-forge", "--stdin")
        with self._started(arguments, {}) as process:
            watch = threading.Timer(self.longest_s, _end, (process,))
            watch.start()
            try:
                _say(process, arguments, f"start\nupdate {ref} {new} {old}\nprepare\n", "prepare: ok")
                yield lambda: _say(process, arguments, "commit\n", "commit: ok")
            finally:
                watch.cancel()
                # Without `commit`, the end of its input makes it leave the ref as it is.
                if process.stdin is not None:
                    with suppress(BrokenPipeError):
                        process.stdin.close()
                process.wait()

    def _started(self, arguments: Sequence[str], variables: Mapping[str, str]) -> subprocess.Popen[bytes]:
        settings = [word for name, value in self.settings for word in ("-c", f"{name}={value}")]
        return subprocess.Popen(  # noqa: S603 - the arguments are ours, and paths come after `--` or on stdin
            [self.program, *settings, *arguments],
            cwd=self.folder,
            env={**self.environment, **FIXED, **variables},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,
        )


def _say(process: subprocess.Popen[bytes], arguments: Sequence[str], line: str, answer: str) -> None:
    """Send the line and read until git gives that answer.

    Raises:
        GitFailed: it ended without it.
    """
    stdin, stdout, stderr = process.stdin, process.stdout, process.stderr
    if stdin is None or stdout is None or stderr is None:
        raise ValueError("the process has no pipes")
    # If git has ended already, its error output below says why.
    with suppress(BrokenPipeError):
        stdin.write(line.encode())
        stdin.flush()
    for told in stdout:
        if told.decode().strip() == answer:
            return
    raise GitFailed(arguments, os.fsdecode(stderr.read()))


def _end(process: subprocess.Popen[bytes]) -> None:
    """End the process and the filters that it started."""
    if hasattr(os, "killpg"):
        with suppress(ProcessLookupError):
            # Filters are children of git, in its process group, and would outlive it.
            os.killpg(process.pid, signal.SIGKILL)
    process.kill()
    process.wait()
