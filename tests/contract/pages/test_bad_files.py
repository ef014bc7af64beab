"""Whatever is in the folder, the server starts, finds what can be found, and reads the rest or refuses it with a sentence."""

from __future__ import annotations

import json
import os
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import anyio
import pytest
from mcp_types import CallToolResult, TextContent

from knowledge.errors import VaultUnavailable
from mcp_server.app.composition import open_app
from mcp_server.app.settings.settings import Settings
from tests.contract.toolsets.test_bad_input import calling, serving, told
from tests.support.knowledge_bases.folders import write
from tests.support.roads.wires import stdio_wire

POSIX = pytest.mark.skipif(os.name == "nt", reason="Windows has no such files")
INDEXING_S = 60.0
"""For everything below together; a bomb that goes off takes minutes and gigabytes."""
LONGEST_ANSWER = 100_000
FIRST_ANSWERS_S = 15.0
MOST_MEMORY_MIB = 1_000

LAUGHS = "a: &a [lol, lol, lol, lol, lol, lol, lol, lol, lol]\n" + "".join(
    f"{name}: &{name} [{', '.join([f'*{before}'] * 9)}]\n"
    for before, name in zip("abcdefghi", "bcdefghij", strict=True)
)
FRONT_MATTER = {
    "laughs": LAUGHS,
    "merges": "a: &a {x: 1}\n" + "".join(f"b{n}: &b{n} {{<<: [*a, *a]}}\n" for n in range(500)),
    "itself": "a: &a [*a]\n",
    "deep": "tags: " + "[" * 50_000,
    "deep_maps": "a: " + "{a: " * 20_000,
    "deep_block": "".join(" " * n + "a:\n" for n in range(400)),
    "unclosed_quote": 'title: "never closed\n',
    "tabs": "title:\tx\n\tkey: y\n",
    "colon": "title: one: two: three\n",
    "no_mapping": "- a\n- b\n",
    "a_number": "42\n",
    "python": "title: !!python/object/apply:os.system ['true']\n",
    "unknown_tag": "title: !ruby/object:Gem x\n",
    "twice": "title: first\ntitle: second\n",
    "no_such_day": "date: 2026-99-99\nmodified: 2026-02-30T25:61:00Z\n",
    "not_numbers": "a: .nan\nb: .inf\nc: 1e999\nd: " + "9" * 5_000 + "\n",
    "wrong_types": "title: [1]\ntags: {a: b}\naliases: 7\nkind: [x]\nsource: {}\nsummary: 1.5\nuntrusted: maybe\n",
    "odd_keys": "? [a, b]\n: x\n1: y\nnull: z\ntrue: w\n",
    "bytes": "data: !!binary R0lGODlhDAAMAIQAAP//9w==\nset: !!set {a, b}\n",
    "control": "title: a\x00b\x1b[31m\n",
    "many_keys": "".join(f"key{n}: {n}\n" for n in range(20_000)),
    "long_title": f"title: {'long ' * 20_000}\n",
}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    write(tmp_path / "kb")
    return tmp_path


async def test_front_matter_that_is_broken_or_a_bomb_costs_one_page_its_metadata(folder: Path) -> None:
    """Broken front matter, YAML bombs."""
    for name, text in FRONT_MATTER.items():
        write(
            folder / "kb",
            {f"front/{name}.md": f"---\n{text}---\n# Page {name}\n\nmarker{name.replace('_', '')} is here.\n"},
        )
    write(folder / "kb", {"front/open.md": "---\ntitle: never closed\n\nmarkeropen is here.\n"})
    began = time.perf_counter()
    async with serving(folder) as client:
        assert time.perf_counter() - began < INDEXING_S
        for name in (*FRONT_MATTER, "open"):
            for view in ("outline", "full"):
                result = await client.call_tool("kb_read", {"path": f"front/{name}.md", "view": view})
                assert isinstance(result, CallToolResult)
                assert not result.is_error, result.content
                assert len(json.dumps(result.structured_content, allow_nan=False)) < LONGEST_ANSWER, name
            found = await client.call_tool("kb_search", {"query": f"marker{name.replace('_', '')}", "limit": 3})
            assert isinstance(found, CallToolResult)
            assert found.structured_content is not None
            assert f"front/{name}.md" in [hit["path"] for hit in found.structured_content["hits"]], name
            assert len(json.dumps(found.structured_content)) < LONGEST_ANSWER, name
        assert await told(client, folder, "kb_map", path="front") is None


@pytest.mark.external
async def test_bytes_that_are_not_text_are_indexed_as_far_as_readable(folder: Path) -> None:
    """Binary files, invalid UTF-8; the design: with or without BOM, CRLF, empty, 10 MB files."""
    files = {
        "binary.md": bytes(range(256)) * 400,
        "zeros.md": bytes(100_000),
        "latin1.md": "# Caf\u00e9\n\nmarkerlatin in the caf\u00e9\n".encode("latin-1"),
        "utf16le.md": "\ufeff# Zeppelin\n\nmarkerlittle flies\n".encode("utf-16-le"),
        "utf16be.md": "\ufeff# Zeppelin\n\nmarkerbig flies\n".encode("utf-16-be"),
        "bom.md": "\ufeff---\ntitle: With a mark\n---\nmarkerbom\n".encode(),
        "crlf.md": b"---\r\ntitle: Lines\r\n---\r\n# Lines\r\n\r\nmarkercrlf\r\n",
        "empty.md": b"",
        "blank.md": b" \n\t\n",
        "dashes.md": b"---\n---\n",
        "half.md": "# Half\n\nmarkerhalf \U0001f680".encode()[:-2],
        "line.md": b"# One line\n\nmarkerline " + b"word " * 2_000_000,
        "word.md": b"# One word\n\nmarkerword " + b"x" * 1_000_000,
        "fences.md": b"# Fences\n\nmarkerfences\n\n" + b"```\n" * 20_001,
        "quotes.md": b"# Quotes\n\nmarkerquotes\n\n" + b"> " * 20_000 + b"x\n",
        "brackets.md": b"# Brackets\n\nmarkerbrackets\n\n" + b"[" * 50_000 + b"](" * 50_000,
        "stars.md": b"# Stars\n\nmarkerstars\n\n" + b"*_" * 50_000,
        "headings.md": b"markerheadings\n\n" + b"".join(b"###### h%d\n" % n for n in range(20_000)),
    }
    (folder / "kb" / "bytes").mkdir()
    for name, raw in files.items():
        (folder / "kb" / "bytes" / name).write_bytes(raw)
    began = time.perf_counter()
    async with serving(folder) as client:
        assert time.perf_counter() - began < INDEXING_S
        for name in files:
            for view in ("outline", "full"):
                assert await told(client, folder, "kb_read", path=f"bytes/{name}", view=view) is None, name
        for word, name in (
            ("latin", "latin1"),
            ("little", "utf16le"),
            ("big", "utf16be"),
            *(
                (n, n)
                for n in ("bom", "crlf", "half", "line", "word", "fences", "quotes", "brackets", "stars", "headings")
            ),
        ):
            found = await client.call_tool("kb_search", {"query": f"marker{word}", "limit": 3})
            assert isinstance(found, CallToolResult)
            assert found.structured_content is not None
            assert f"bytes/{name}.md" in [hit["path"] for hit in found.structured_content["hits"]], name
            assert len(json.dumps(found.structured_content)) < LONGEST_ANSWER, name
        assert await told(client, folder, "kb_map", path="bytes") is None


@POSIX
async def test_links_devices_and_odd_names_stop_nothing(folder: Path) -> None:
    """Symlinks that lead outside; loops, devices and pipes must neither hang nor leak."""
    root = folder / "kb"
    (folder / "outside").mkdir()
    write(folder, {"outside/secret.md": "# Outside\n\norichalcum\n"})
    odd = root / "odd"
    odd.mkdir()
    for name, target in (
        ("zero.md", Path("/dev/zero")),
        ("tty.md", Path("/dev/stdin")),
        ("out.md", folder / "outside" / "secret.md"),
        ("out", folder / "outside"),
        ("dangling.md", odd / "nowhere.md"),
        ("loop.md", odd / "pool.md"),
        ("pool.md", odd / "loop.md"),
        ("up", root),
        ("here", odd),
        ("proc", Path("/proc/self")),
    ):
        (odd / name).symlink_to(target)
    os.mkfifo(odd / "fifo.md")
    (odd / "linked_fifo.md").symlink_to(odd / "fifo.md")
    (odd / "folder.md").mkdir()
    write(
        odd,
        {
            "folder.md/inside.md": "# Inside\n\nmarkerinside\n",
            "\U0001f680 rocket page.md": "# Rocket\n\nmarkerrocket\n",
        },
    )
    write(odd, {"c:/drive.md": "x", "new\nline.md": "x", "back\\slash.md": "x", "UPPER.MD": "# Upper\n\nmarkerupper\n"})
    write(odd, {"x" * 240 + ".md": "# Long name\n\nmarkerlong\n"})
    (odd / os.fsdecode(b"not\xffutf8.md")).write_text("x", encoding="utf-8")
    with anyio.fail_after(INDEXING_S):
        async with serving(folder) as client:
            for child in sorted(odd.iterdir()):
                await told(client, folder, "kb_read", path=f"odd/{child.name}")
                await told(client, folder, "kb_map", path=f"odd/{child.name}")
            for leak in (
                "zero.md",
                "tty.md",
                "out.md",
                "out/secret.md",
                "fifo.md",
                "linked_fifo.md",
                "proc/environ",
                "loop.md",
            ):
                assert await told(client, folder, "kb_read", path=f"odd/{leak}"), leak
            for word, name in (
                ("inside", "folder.md/inside.md"),
                ("rocket", "\U0001f680 rocket page.md"),
                ("upper", "UPPER.MD"),
            ):
                found = await client.call_tool("kb_search", {"query": f"marker{word}"})
                assert isinstance(found, CallToolResult)
                assert found.structured_content is not None
                assert found.structured_content["hits"][0]["path"] == f"odd/{name}"
            assert await told(client, folder, "kb_map", path="odd", depth=4) is None
            found = await client.call_tool("kb_search", {"query": "orichalcum"})
            assert isinstance(found.content[0], TextContent)
            assert "Outside" not in found.content[0].text


@contextmanager
def flickering(files: list[Path]) -> Iterator[None]:
    """Files that appear and vanish all the time."""
    stop = threading.Event()

    def flicker() -> None:
        while not stop.is_set():
            for file in files:
                file.unlink(missing_ok=True)
                file.write_text("# Flicker\n\nmarkerflicker\n", encoding="utf-8")

    thread = threading.Thread(target=flicker)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()


async def test_files_that_vanish_while_they_are_read_are_there_or_not(folder: Path) -> None:
    files = [folder / "kb" / f"flicker{n}.md" for n in range(5)]
    with flickering(files):
        async with serving(folder) as client:
            for n in range(100):
                sentence = await told(client, folder, "kb_read", path=files[n % 5].name)
                assert sentence is None or "nothing at" in sentence
                assert await told(client, folder, "kb_map") is None
                assert await told(client, folder, "kb_search", query="markerflicker") is None


async def test_an_empty_knowledge_base_answers_and_finds_its_first_page_when_it_comes(tmp_path: Path) -> None:
    settings = Settings(kb=tmp_path / "kb", state_dir=tmp_path / "state")
    settings.kb.mkdir()
    async with open_app(settings) as app:
        from mcp import Client

        async with Client(app.server) as client:
            for tool, arguments in (
                ("kb_map", {}),
                ("kb_search", {"query": "anything"}),
                ("kb_search", {"query": "x", "path": "a"}),
            ):
                assert await told(client, tmp_path, tool, **arguments) is None
            assert await told(client, tmp_path, "kb_read", path="first.md")
            assert await told(client, tmp_path, "kb_read", path=".")
            write(settings.kb, {"a/first.md": "# First\n\nmarkerfirst\n"})
            with anyio.fail_after(60):
                while True:
                    found = await client.call_tool("kb_search", {"query": "markerfirst"})
                    assert found.structured_content is not None
                    if found.structured_content["hits"]:
                        break
                    await anyio.sleep(0.05)


@POSIX
@pytest.mark.parametrize(
    ("make", "says"),
    [
        (lambda path: path.write_text("x", encoding="utf-8"), "it is a file"),
        (lambda path: path.symlink_to(path.with_name("nowhere")), "no such folder"),
        (lambda path: path.symlink_to(path), "check that"),
        (Path.exists, "no such folder"),
        (os.mkfifo, "it is a file"),
    ],
    ids=["file", "dangling", "loop", "missing", "pipe"],
)
async def test_a_path_that_is_no_folder_is_refused_with_what_to_do(make: object, says: str, tmp_path: Path) -> None:
    """A missing or unreadable folder, a file instead of a folder."""
    make(tmp_path / "kb")  # type: ignore[operator]  # the parameters are functions
    with pytest.raises(VaultUnavailable, match=says) as refusal:
        async with open_app(Settings(kb=tmp_path / "kb", state_dir=tmp_path / "state")):
            pass
    assert len(str(refusal.value)) < 300
    assert not (tmp_path / "state").exists()


async def test_a_folder_that_is_taken_away_and_comes_back_is_served_again(folder: Path) -> None:
    async with serving(folder) as client:
        (folder / "kb").rename(folder / "elsewhere")
        result = await client.call_tool("kb_read", {"path": "long.md"})
        assert isinstance(result.content[0], TextContent)
        assert "there is no such folder" in result.content[0].text
        assert await told(client, folder, "kb_search", query="roll back payment") is None
        assert await told(client, folder, "kb_map") is None
        (folder / "elsewhere").rename(folder / "kb")
        assert await told(client, folder, "kb_read", path="long.md") is None


@pytest.mark.skipif(os.name == "nt" or os.geteuid() == 0, reason="permissions do not bind root")
async def test_folders_and_files_that_may_not_be_read_cost_only_themselves(folder: Path) -> None:
    closed, page = folder / "kb" / "mail", folder / "kb" / "long.md"
    closed.chmod(0)
    page.chmod(0)
    try:
        async with serving(folder) as client:
            assert await told(client, folder, "kb_map", depth=4) is None
            assert await told(client, folder, "kb_map", path="mail")
            assert "cannot be read" in str(await told(client, folder, "kb_read", path="long.md"))
            assert await told(client, folder, "kb_read", path="guides/deploy.md") is None
    finally:
        closed.chmod(0o700)
        page.chmod(0o600)


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="memory is measured where /proc tells it")
def test_a_folder_of_100_000_files_is_served_immediately_and_in_bounded_memory(tmp_path: Path) -> None:
    """A folder of 100,000 files. The first answers don't wait for the index."""
    for n in range(100_000):
        folder = tmp_path / "kb" / f"d{n % 100}"
        folder.mkdir(parents=True, exist_ok=True)
        (folder / f"{n}.md").write_text(f"# Page {n}\n\nmarker{n}\n", encoding="utf-8")
    began = time.perf_counter()
    with stdio_wire(tmp_path) as wire:
        for tool, arguments in (
            ("kb_map", "{}"),
            ("kb_search", '{"query":"page"}'),
            ("kb_read", '{"path":"d7/7.md"}'),
        ):
            (answer,) = wire.answers(calling(arguments, tool))
            assert not answer["result"].get("isError"), answer
        assert time.perf_counter() - began < FIRST_ANSWERS_S
        while True:
            (answer,) = wire.answers(calling('{"query":"page"}'))
            indexed = answer["result"]["structuredContent"]["indexed"]
            if indexed["done"] >= indexed["total"] > 0:
                break
            time.sleep(1)
        assert indexed["done"] == 100_000
        status = Path(f"/proc/{wire.process.pid}/status").read_text(encoding="ascii")
        peak_kib = int(next(line for line in status.splitlines() if line.startswith("VmHWM")).split()[1])
        assert peak_kib < MOST_MEMORY_MIB * 1024
