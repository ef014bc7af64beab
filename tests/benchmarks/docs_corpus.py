"""Lay out public documentation as one knowledge base to measure with. It is never committed.

    python -m tests.benchmarks.docs_corpus DEST MIRROR... [--sources FILE]

MIRROR is a git directory (bare or not) or a plain folder, one for each source of FILE (`questions/docs_corpus.json`), which
states repository, commit and folders; its path contains `owner+name` or `owner/name`, or you give `NAME=PATH`.
"""

from __future__ import annotations

import argparse
import io
import json
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from knowledge.tokens import count_tokens

SOURCES = Path(__file__).parent / "questions" / "docs_corpus.json"
QUANTILES = (0.05, 0.25, 0.5, 0.75, 0.9, 0.95, 0.99, 1.0)


@dataclass(frozen=True, slots=True)
class Source:
    """Part of a public repository: its pages are below `name` in the corpus, without the folder that they share."""

    name: str
    repository: str
    commit: str
    folders: Sequence[str]
    endings: Sequence[str] = (".md",)


def sources(file: Path) -> list[Source]:
    """Return the sources that `file` lists."""
    listed = json.loads(file.read_text(encoding="utf-8"))["sources"]
    return [Source(**source) for source in listed]


def lay_out(dest: Path, mirrors: Sequence[str], listed: Sequence[Source]) -> dict[str, int]:
    """Write the pages of every listed source with a mirror below `dest`, replacing older ones, and return how many each has."""
    found = {}
    for source in listed:
        mirror = _mirror_of(source, mirrors)
        if mirror is None:
            print(f"{source.name}: no mirror of {source.repository} was given", file=sys.stderr)
            continue
        shutil.rmtree(dest / source.name, ignore_errors=True)
        found[source.name] = 0
        for path, text in _pages(source, mirror):
            file = dest / source.name / path
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_bytes(text)
            found[source.name] += 1
    return found


def sizes(folder: Path) -> list[int]:
    """Return the tokens of every page below `folder`, smallest first."""
    return sorted(count_tokens(file.read_text(encoding="utf-8", errors="replace")) for file in folder.rglob("*.md"))


def quantiles(values: Sequence[float], at: Sequence[float] = QUANTILES) -> list[float]:
    """Return the quantiles of `values` (sorted), nearest rank; zeros if there are none."""
    return [values[min(len(values) - 1, int(q * len(values)))] if values else 0.0 for q in at]


def _mirror_of(source: Source, mirrors: Sequence[str]) -> Path | None:
    for mirror in mirrors:
        name, _, path = mirror.rpartition("=")
        if name == source.name:
            return Path(path)
        if not name and (source.repository in mirror or source.repository.replace("/", "+") in mirror):
            return Path(path)
    return None


def _pages(source: Source, mirror: Path) -> Iterator[tuple[str, bytes]]:
    """Yield every page's path and bytes, at the stated commit if `mirror` is a git directory that has it."""
    shared = _shared(source.folders)
    if not (mirror / "objects").is_dir() and not (mirror / ".git").exists():
        for folder in source.folders:
            for file in sorted((mirror / folder).rglob("*")):
                if file.suffix in source.endings:
                    yield file.relative_to(mirror / shared).as_posix(), file.read_bytes()
        return
    commit = _commit(source, mirror)
    listed = _git(mirror, "ls-tree", "-r", "-z", "--name-only", commit, "--", *filter(None, source.folders)).decode()
    pages = [path for path in listed.split("\0") if path.endswith(tuple(source.endings))]
    # Blob by blob, because an archive fails as a whole when a mirror leaves out a large picture.
    asked = "".join(f"{commit}:{path}\n" for path in pages).encode()
    told = io.BytesIO(_git(mirror, "cat-file", "--batch", stdin=asked))
    for path in pages:
        kind, size = told.readline().split()[1:]
        text = told.read(int(size) + 1)[:-1]
        if kind == b"blob":
            yield PurePosixPath(path).relative_to(shared).as_posix(), text


def _shared(folders: Sequence[str]) -> str:
    parts = [PurePosixPath(folder).parts for folder in folders]
    same = []
    for step in zip(*parts, strict=False):
        if len(set(step)) > 1:
            break
        same.append(step[0])
    return "/".join(same)


def _commit(source: Source, mirror: Path) -> str:
    try:
        _git(mirror, "cat-file", "-e", f"{source.commit}^{{commit}}")
    except subprocess.CalledProcessError:
        print(f"{source.name}: {source.commit} is not there; taking HEAD, labels may not hold", file=sys.stderr)
        return "HEAD"
    return source.commit


def _git(mirror: Path, *arguments: str, stdin: bytes | None = None) -> bytes:
    # A mirror may belong to another user; no code of it is run.
    command = ["git", "-c", "safe.directory=*", "-C", str(mirror), *arguments]
    return subprocess.run(command, check=True, capture_output=True, input=stdin).stdout


def main() -> int:
    """Lay out the corpus and print its sources."""
    parser = argparse.ArgumentParser(prog="python -m tests.benchmarks.docs_corpus", description=__doc__)
    parser.add_argument("dest", type=Path)
    parser.add_argument("mirrors", nargs="+", metavar="MIRROR")
    parser.add_argument("--sources", type=Path, default=SOURCES, metavar="FILE")
    args = parser.parse_args()
    for name, count in lay_out(args.dest, args.mirrors, sources(args.sources)).items():
        print(f"{name}: {count} pages")
    found = sizes(args.dest)
    shown = ", ".join(f"{q:.0%} {size:,.0f}" for q, size in zip(QUANTILES, quantiles(found), strict=True))
    print(f"{len(found):,} pages; tokens of a page: {shown}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
