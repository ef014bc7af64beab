"""The remote repository that a branch follows: fetch from it, push to it, never by force.

Git finds credentials by itself, as it does for a person; nothing is asked.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from knowledge.errors import KnowledgeError
from knowledge.git.checkout import Branch, Checkout, CommitWaits
from knowledge.git.program import CONFIGURED, Git, GitFailed

LONGEST_S = 300.0
"""How long a fetch or a push may take."""
_NO_BRANCH = "couldn't find remote ref"
_HEADS = "refs/heads/"


class RemoteAway(KnowledgeError):
    """The remote can't be read or written now. Nothing was lost."""


class PushRefused(KnowledgeError):
    """The remote did not take the commits, for another reason than commits of others."""


@dataclass(frozen=True, slots=True)
class Remote:
    """A branch of a remote repository, and the local branch that follows it."""

    git: Git
    name: str
    branch: str
    """The branch in the remote repository, `refs/heads/...`."""

    @classmethod
    def of(cls, checkout: Checkout, branch: Branch, environment: Mapping[str, str]) -> Remote:
        """Return the remote that the branch follows: the one it is configured for, or the only one there is.

        Fetch and push run with `environment`, in which git and ssh find their credentials.

        Raises:
            CommitWaits: there is none, or it is unclear which one.
        """
        local, git = branch.ref.removeprefix(_HEADS), checkout.git

        def configured(key: str) -> str:
            return git.run("config", "--get", f"branch.{local}.{key}", codes=(0, 1)).line

        names = git.run("remote").line.split("\n")
        name, there = configured("remote"), configured("merge")
        if not name and len(names) == 1 and names[0]:
            name = names[0]
        if not name and not names[0]:
            raise CommitWaits("the repository has no remote to synchronise with", "git remote add origin ADDRESS")
        if name not in names:
            mend = f"git branch --set-upstream-to=REMOTE/BRANCH {local}"
            raise CommitWaits(f"it is not clear which remote the branch {local} follows", mend)
        # Hooks run as in a push by hand: Git LFS sends its files in one.
        with_hooks = tuple(one for one in CONFIGURED if one[0] != "core.hooksPath")
        outward = replace(git, environment=environment, settings=with_hooks, longest_s=LONGEST_S)
        return cls(outward, name, there or branch.ref)

    @property
    def title(self) -> str:
        """How people write the branch, such as `origin/main`."""
        return f"{self.name}/{self.branch.removeprefix(_HEADS)}"

    @property
    def tracking(self) -> str:
        """The ref that has the newest commit which was fetched."""
        return f"refs/remotes/{self.title}"

    def fetch(self) -> str:
        """Fetch the branch and return its newest commit, "" if the remote has no such branch yet.

        Raises:
            RemoteAway: the remote can't be read.
        """
        options = ("--quiet", "--no-tags", "--no-recurse-submodules", "--no-write-fetch-head")
        try:
            self.git.run("fetch", *options, self.name, f"+{self.branch}:{self.tracking}")
        except GitFailed as error:
            if _NO_BRANCH in error.said:
                return ""
            raise RemoteAway(f"{self.name} can't be reached: {_reason(error.said)}") from error
        return self.git.run("rev-parse", "--verify", f"{self.tracking}^{{commit}}").line

    def push(self, commit: str) -> str:
        """Push the commit, without force; return "" if the remote has it now, else why not: it may have newer commits.

        Raises:
            RemoteAway: the remote can't be written.
        """
        done = self.git.run(
            "push", "--porcelain", "--no-follow-tags", self.name, f"{commit}:{self.branch}", codes=(0, 1, 128)
        )
        told = [line for line in done.output.decode("utf-8", "replace").splitlines() if line.startswith("!")]
        if done.code == 0:
            self.git.run("update-ref", self.tracking, commit)
            return ""
        if told:
            return told[0].split("\t")[-1]
        raise RemoteAway(f"{self.name} can't be reached: {_reason(done.said)}")


def _reason(said: str) -> str:
    """Return the part of git's error output that says what happened: git's last `fatal:` only says to check the address."""
    lines = [line.strip() for line in said.splitlines() if line.strip()]
    lines = [
        line for line in lines if not line.startswith(("remote: ", "Please make sure", "and the repository exists"))
    ]
    return (lines[0].removeprefix("fatal: ") if lines else "git gave no reason")[:300]
