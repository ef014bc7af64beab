"""The handbook is true: generated pages equal their declarations, links resolve, the two commands are the ones CI runs."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from knowledge.index.embed.identity import KINDS
from knowledge.pages.document import parse
from knowledge.pages.vault import LARGEST_BYTES
from mcp_server.__main__ import VERBS
from mcp_server.app.settings.settings import BY_FIELD
from mcp_server.hosts.catalogue import HOSTS
from mcp_server.protocol.server import INSTRUCTIONS
from mcp_server.toolsets.knowledge.schemas import LONGEST_CONTENT
from mcp_server.transport.stdio import LONGEST_LINE
from tests.bench import generated

ROOT = Path(__file__).parents[3]
KB = ROOT / "kb"
PAGES = sorted(KB.rglob("*.md"))
TEST_COMMAND = "python3 -m venv .venv && .venv/bin/pip install -q -e '.[dev]' && .venv/bin/pytest -n 3 --dist worksteal"


SOURCES = sorted(path for room in ("knowledge", "agents", "mcp_server", "kb") for path in (ROOT / room).rglob("*.*"))


def text(path: Path) -> str:
    return path.read_text(encoding="utf-8")


def test_generated_files_follow_the_declarations() -> None:
    """The schemas ship with the program and are read at every start; people read the pages and the README's table."""
    stale = [name for name, made in generated.contents().items() if text(ROOT / name) != made]
    assert stale == [], f"out of date: {', '.join(stale)}; run `{generated.COMMAND}`"
    assert generated.TOOL_TABLE.search(text(ROOT / "README.md")), "the README has no table of tools between its marks"


def test_ci_runs_the_readme_s_test_command() -> None:
    assert TEST_COMMAND in text(ROOT / "README.md")
    assert TEST_COMMAND in text(ROOT / ".ci" / "run")


def test_nobody_is_told_to_install_the_program_by_its_name_from_an_index() -> None:
    """It is installed from a checkout or a wheel file. In a public index the name may be somebody else's."""
    named = re.compile(r"pip install [^|&\n]*(?<![/\w])knowledge-forge(?![\w-]*\.whl)(\[|'|`|$|\s)", re.MULTILINE)
    files = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *(p for p in SOURCES if p.suffix in (".md", ".py", ".html"))]
    assert {path.name for path in files} > {"run-as-a-service.md", "extras.py"}
    assert [str(path.relative_to(ROOT)) for path in files if named.search(text(path))] == []


def test_the_command_line_reference_knows_every_verb() -> None:
    sections = re.findall(r"^## (\w+)$", text(KB / "reference" / "command-line.md"), re.MULTILINE)
    missing = [verb for verb in VERBS if verb not in sections]
    assert missing == [], "add a section on each of these to kb/reference/command-line.md"


@pytest.mark.parametrize("page", ["README.md", "kb/tutorial/connect-a-host.md", "kb/reference/command-line.md"])
def test_every_host_that_install_knows_is_named(page: str) -> None:
    missing = [host.id for host in HOSTS if host.id not in text(ROOT / page)]
    assert missing == [], f"add these to the hosts of `install` in {page}"


PAGE_SIZE, CALL_SIZE, MESSAGE_SIZE = (
    f"{LARGEST_BYTES // 2**20} MiB",
    f"{LONGEST_CONTENT:,} characters",
    f"{LONGEST_LINE // 2**20} MiB",
)


@pytest.mark.parametrize(
    ("page", "limits"),
    [
        ("concepts/smart-merge.md", [PAGE_SIZE, CALL_SIZE]),
        ("guides/large-knowledge-bases.md", [PAGE_SIZE]),
        ("guides/security-model.md", [MESSAGE_SIZE]),
        ("guides/troubleshooting.md", [PAGE_SIZE]),
        ("reference/errors.md", [PAGE_SIZE, MESSAGE_SIZE]),
        ("tutorial/your-own-notes.md", [PAGE_SIZE]),
    ],
)
def test_the_handbook_names_the_limits_that_the_program_has(page: str, limits: list[str]) -> None:
    missing = [limit for limit in limits if limit not in text(KB / page)]
    assert missing == [], f"kb/{page} names another limit"


def test_every_kind_of_embedder_is_explained() -> None:
    guide, setting = text(KB / "guides" / "choose-an-embedder.md"), BY_FIELD["embedder"].says
    assert [kind for kind in KINDS if f"| `{kind}:" not in guide] == [], "add a row to guides/choose-an-embedder.md"
    assert [kind for kind in KINDS if f"`{kind}:" not in setting] == [], "name it in the sentence of FORGE_EMBEDDER"


def test_the_handbook_is_large_enough_to_have_something_to_find() -> None:
    assert len(PAGES) >= 25


@pytest.mark.parametrize("page", PAGES, ids=lambda p: str(p.relative_to(KB)))
def test_every_link_of_the_handbook_leads_somewhere(page: Path) -> None:
    document = parse(page.relative_to(KB).as_posix(), page.read_bytes())
    assert not document.problems
    assert document.metadata.get("title")
    assert document.metadata.get("summary")
    names = {p.stem for p in PAGES} | {p.relative_to(KB).with_suffix("").as_posix() for p in PAGES}
    for link in document.links:
        target = link.partition("#")[0]
        if not target:
            continue
        reached = (page.parent / target).exists() or target.removesuffix(".md") in names
        assert reached, f"{link} leads nowhere"


def test_the_instructions_teach_the_circles_in_at_most_120_words() -> None:
    assert len(INSTRUCTIONS.split()) <= 120
    for word in ("kb_map", "kb_read", "kb_search", "scent", "tainted"):
        assert word in INSTRUCTIONS


def test_every_attack_of_the_security_model_names_a_test_that_exists() -> None:
    page = text(KB / "guides" / "security-model.md")
    named = re.findall(r"`((?:\w+/)*test_\w+\.py)::(test_\w+)`", page)
    assert len(named) > 30
    for file, name in named:
        path = ROOT / (file if file.startswith("tests/") else f"tests/contract/{file}")
        assert f"def {name}(" in text(path), f"{file} has no {name}"


def rows(page: str, heading: str) -> list[list[str]]:
    """Return the cells of the table below a heading, row by row."""
    section = text(ROOT / page).partition(f"\n## {heading}\n")[2].partition("\n## ")[0]
    return [line.strip("| ").split(" | ") for line in section.splitlines() if line.startswith("| ")][1:]


ADDITIONS = rows("CONTRIBUTING.md", "How to add something")


@pytest.mark.parametrize(("files", "tests"), [row[1:] for row in ADDITIONS], ids=[row[0] for row in ADDITIONS])
def test_common_additions_take_at_most_four_existing_files(files: str, tests: str) -> None:
    """For ten of them the change was made once, and these are the files that it took."""
    edited = re.findall(r"`(README\.md|[\w./-]+/[\w-]+\.\w+)`", files)
    named = [*edited, *re.findall(r"`([\w./-]+/)`", files), *re.findall(r"`(tests/[\w./-]+)`", tests)]
    assert len(edited) <= 4
    assert tests.startswith("`tests/")
    assert [path for path in named if not (ROOT / path).exists()] == []


def test_fifteen_additions_are_listed() -> None:
    assert len(ADDITIONS) >= 15


@pytest.mark.parametrize("page", ["kb/concepts/architecture.md", "kb/guides/for-contributors.md", "CONTRIBUTING.md"])
def test_every_path_that_a_contributor_is_sent_to_exists(page: str) -> None:
    named = re.findall(r"`((?:knowledge|agents|mcp_server|tests|kb)/[\w./-]+)`", text(ROOT / page))
    assert len(named) > 5
    assert [path for path in named if "NAME" not in path and not (ROOT / path).exists()] == []
