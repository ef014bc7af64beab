"""`sentences`: draws sentences of one kind at random, so that a person can judge how the project reads."""

from __future__ import annotations

import argparse
import ast
import random
import re
from collections.abc import Callable, Iterator
from pathlib import Path

ROOT = Path(__file__).parents[2]
PACKAGES = ("knowledge", "agents", "mcp_server")
PAGES = "mcp_server/web"
TOOLS = "mcp_server/toolsets"
DECLARING = ("tools.py", "schemas.py")
END = re.compile(r"(?<=[.?!])\s+")
NOT_PROSE = re.compile(r"SELECT |INSERT |UPDATE |DELETE |CREATE |\\b|\(\?|[a-z-]+: [^;]+;")
Sentence = tuple[str, str]  # the file below the project's root, and the sentence


def add(programs: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the program and its options."""
    parser = programs.add_parser("sentences", help="draw sentences at random, to be judged by eye")
    parser.add_argument("kind", choices=KINDS, help="where the sentences come from")
    parser.add_argument("--count", type=int, default=50, help="how many to draw (default: 50)")
    parser.add_argument("--seed", type=int, default=0, help="the same seed draws the same sentences (default: 0)")
    parser.set_defaults(run=run)


def run(given: argparse.Namespace) -> int:
    """Print the draw, one sentence a line, each after the name of its file."""
    for path, sentence in draw(given.kind, given.count, given.seed):
        print(f"{path}: {sentence}")
    return 0


def draw(kind: str, count: int, seed: int) -> list[Sentence]:
    """Return `count` sentences of a kind, or all of them if there are fewer."""
    sentences = sorted(set(KINDS[kind]()))
    return random.Random(seed).sample(sentences, min(count, len(sentences)))  # noqa: S311 - a sample, not a secret


def readme() -> Iterator[Sentence]:
    """Yield the sentences of README.md."""
    return _markdown(ROOT / "README.md")


def handbook() -> Iterator[Sentence]:
    """Yield the sentences of the handbook, table cells included."""
    for path in (ROOT / "kb").rglob("*.md"):
        yield from _markdown(path)


def page() -> Iterator[Sentence]:
    """Yield the texts of the review page: its templates, and the strings of the code that fills them."""
    for path in (ROOT / PAGES / "templates").glob("*.html"):
        text = re.sub(r"(?s)\{#.*?#\}", "", path.read_text(encoding="utf-8"))
        for quoted in re.findall(r"\{[{%].*?[%}]\}", text):
            for string in re.findall(r'"([^"{}]{12,})"', quoted):
                yield from _sentences(path, string, words=3)
        text = re.sub(r"\{%.*?%\}", "", re.sub(r"\{\{.*?\}\}", "{}", text))
        for part in re.split(r"\n\n|</?(?!code|a |a>|em|strong|b>|span)[a-z][^>]*>", text):
            yield from _sentences(path, re.sub(r"<[^>]*>", "", part), words=3)
    for path in (ROOT / PAGES / "static").glob("*.js"):
        for text in re.findall(r'"([^"\n]{20,})"', path.read_text(encoding="utf-8")):
            yield from _sentences(path, text, words=4)
    yield from _strings(PAGES)


def messages() -> Iterator[Sentence]:
    """Yield errors, results, descriptions and other strings with prose in them."""
    for package in PACKAGES:
        yield from _strings(package)


def tools() -> Iterator[Sentence]:
    """Yield what models read of tools: their descriptions, and those of arguments and results."""
    for path, tree in _modules((TOOLS,)):
        if path.name in DECLARING:
            yield from _prose(path, tree)
            for text in _documentation(tree):
                yield from _sentences(path, text.value, words=3)


def docstrings(folders: tuple[str, ...] = PACKAGES) -> Iterator[Sentence]:
    """Yield the sentences of all docstrings of the code in these folders, those of fields included."""
    for path, tree in _modules(folders):
        for text in _documentation(tree):
            yield from _sentences(path, text.value, words=3)


def tests() -> Iterator[Sentence]:
    """Yield the sentences of the docstrings of tests and their helpers."""
    return docstrings(("tests",))


def comments() -> Iterator[Sentence]:
    """Yield the comments of the product code; lines of one comment are joined."""
    for package in PACKAGES:
        for path in (ROOT / package).rglob("*.py"):
            text = re.sub(r"\n\s*# (?=[a-z])", " ", path.read_text(encoding="utf-8"))
            for comment in re.findall(r"(?m)(?:^|\s)# (?!noqa|type:)(\S.*)$", text):
                yield from _sentences(path, comment, words=3)


KINDS: dict[str, Callable[[], Iterator[Sentence]]] = {
    "readme": readme,
    "handbook": handbook,
    "page": page,
    "messages": messages,
    "tools": tools,
    "docstrings": docstrings,
    "tests": tests,
    "comments": comments,
}


def _markdown(path: Path) -> Iterator[Sentence]:
    text = re.sub(r"(?ms)^```.*?^```|^    .*?$|\A---.*?^---$", "", path.read_text(encoding="utf-8"))
    for part in re.split(r"\n\n|\n(?=\s*(?:- |\d+\. |\||#))", text):
        for cell in part.split("|") if part.lstrip().startswith("|") else [part]:
            yield from _sentences(path, cell, words=5)


def _strings(folder: str) -> Iterator[Sentence]:
    for path, tree in _modules((folder,)):
        yield from _prose(path, tree)


def _prose(path: Path, tree: ast.Module) -> Iterator[Sentence]:
    skipped = {id(text) for text in _documentation(tree)}
    for node in ast.walk(tree):
        if isinstance(node, ast.JoinedStr):
            skipped |= {id(part) for part in node.values}
            text = "".join(str(part.value) if isinstance(part, ast.Constant) else "{}" for part in node.values)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in skipped:
            text = node.value
        else:
            continue
        if re.search(r"[a-z]{3} [a-z]{2,}", text) and not NOT_PROSE.search(text):
            yield from _sentences(path, text, words=5)


def _modules(folders: tuple[str, ...]) -> Iterator[tuple[Path, ast.Module]]:
    for folder in folders:
        for path in (ROOT / folder).rglob("*.py"):
            yield path, ast.parse(path.read_text(encoding="utf-8"))


def _documentation(tree: ast.Module) -> list[ast.Constant]:
    lone = (node.value for node in ast.walk(tree) if isinstance(node, ast.Expr))
    return [value for value in lone if isinstance(value, ast.Constant) and isinstance(value.value, str)]


def _sentences(path: Path, text: object, words: int) -> Iterator[Sentence]:
    for sentence in END.split(" ".join(str(text).split())):
        if words < len(sentence.split()) < 80:  # longer ones are lists of words
            yield path.relative_to(ROOT).as_posix(), sentence
