"""`embedder list|use`: a person changes to a transformer and back, with and without a running server, and after kill -9."""

from __future__ import annotations

import json
import os
import signal
import sqlite3
import subprocess
import sys
import time
from contextlib import closing
from pathlib import Path
from typing import Any

import anyio
import anyio.to_thread
import pytest
from starlette.responses import JSONResponse, Response

from mcp_server.__main__ import main
from mcp_server.app.composition import open_app
from mcp_server.app.factories.embedder import STATIC
from mcp_server.app.freshness.index_update import held_lease
from mcp_server.app.knowledge_base import open_base
from mcp_server.app.settings.loader import load
from mcp_server.app.settings.settings import Settings
from tests.support.index.embedding_server import EmbeddingServer, serving
from tests.support.index.tiny_transformer import words_of, write_transformer
from tests.support.knowledge_bases.folders import write

ROOT = Path(__file__).parents[3]


class Person:
    """A person at a command line, with a configuration file of their own."""

    def __init__(self, home: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
        self.kb, self.state, self.file = write(home / "kb"), home / "state", home / "forge.toml"
        self.file.write_text("# mine\n", encoding="utf-8")
        self.file.chmod(0o600)
        self._capsys = capsys
        monkeypatch.setenv("FORGE_CONFIG", str(self.file))
        words = words_of(*(page.read_text(encoding="utf-8") for page in self.kb.rglob("*.md")))
        self.model = write_transformer(home / "tiny", words)
        (self.model / "README.md").write_text("---\nlicense: apache-2.0\nlanguage: [en, de]\n---\n", encoding="utf-8")

    @property
    def words(self) -> list[str]:
        return ["--kb", str(self.kb), "--state-dir", str(self.state)]

    @property
    def settings(self) -> Settings:
        return load({"kb": self.kb, "state_dir": self.state})

    def says(self, *words: str) -> tuple[int, str, str]:
        code = main([*words, *self.words])
        told = self._capsys.readouterr()
        return code, told.out, told.err

    def json(self, *words: str) -> Any:
        code, out, err = self.says(*words, "--json")
        assert code == 0, err
        return json.loads(out)


@pytest.fixture
def person(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Person:
    return Person(tmp_path, monkeypatch, capsys)


def test_the_price_is_said_before_anything_is_changed(person: Person) -> None:
    person.says("index")
    code, out, err = person.says("embedder", "use", str(person.model))
    assert code == 1
    assert "answer at a terminal, or add --yes" in err
    for said in ("apache-2.0", "en, de", "pooling: mean (assumed", "a second as measured here", "for the vectors"):
        assert said in out
    assert person.file.read_text(encoding="utf-8") == "# mine\n"
    assert person.json("embedder", "list")["in_use"] == STATIC.embedder


def test_it_changes_to_a_model_and_back_and_only_changed_pages_are_embedded_again(person: Person) -> None:
    person.says("index")
    code, out, _ = person.says("embedder", "use", str(person.model), "--yes")
    assert code == 0
    assert "all passages have their vectors" in out
    assert "to go back: knowledge-forge embedder use static" in out
    assert person.file.read_text(encoding="utf-8") == f'# mine\nembedder = "onnx:{person.model}"\n'
    listed = person.json("embedder", "list")
    assert listed["in_use"] == listed["wanted"]
    assert listed["in_use"].startswith(f"onnx:{person.model}#")
    assert listed["renewal"] is None
    write(person.kb, {"late.md": "# Late\n\nOne new passage.\n"})
    report = person.json("index")
    assert (report["changed"], report["embedded_chunks"]) == (1, 1)
    assert person.json("index", "--rebuild")["waiting"] == ""
    answer = person.json("search", "roll back the payment service")
    assert answer["hits"]
    assert answer["note"] is None
    code, _, err = person.says("embedder", "use", "static", "--url", "http://127.0.0.1:9")
    assert (code, "--url is for endpoint:MODEL only" in err) == (2, True)
    assert "needs the name of a model" in person.says("embedder", "use", "endpoint:", "--url", "http://127.0.0.1:9")[2]
    done = person.json("embedder", "use", "static")
    assert (done["embedder"], done["waiting"]) == ("static", "")
    assert person.json("embedder", "list")["in_use"] == STATIC.embedder


def test_a_model_that_is_gone_is_said_by_the_list_and_by_the_index(person: Person) -> None:
    person.says("embedder", "use", str(person.model), "--yes")
    person.model.rename(person.model.with_name("elsewhere"))
    assert "there is no folder" in person.json("embedder", "list")["problem"]
    for command in ("embedder", "index"):
        _, out, _ = person.says(command)
        assert "there is no folder" in out
        assert "pages are found by words only until that is fixed; then run knowledge-forge index" in out
    person.model.with_name("elsewhere").rename(person.model)
    assert person.json("embedder", "list")["problem"] == ""
    assert person.json("index")["waiting"] == ""


def test_whether_it_finds_across_languages_is_shown_and_may_be_declared(person: Person) -> None:
    person.says("index")
    _, out, _ = person.says("embedder", "use", str(person.model))
    assert "finds pages by questions in other languages" in out
    (person.model / "README.md").unlink()
    _, out, _ = person.says("embedder", "use", str(person.model))
    assert "use --multilingual yes" in out
    code, out, _ = person.says("embedder", "use", str(person.model), "--multilingual", "yes", "--yes")
    assert code == 0
    assert "finds pages by questions in other languages" in out
    assert "embedder_multilingual = true" in person.file.read_text(encoding="utf-8")
    assert person.settings.embedder_multilingual is True
    person.says("embedder", "use", "static")
    assert person.settings.embedder_multilingual is None


def test_a_first_index_is_filled_too_and_its_price_is_measured_with_the_handbook(person: Person) -> None:
    done = person.json("embedder", "use", str(person.model), "--yes")
    assert done["estimate"]["passages_per_s"] > 0
    assert person.json("embedder", "list")["in_use"].startswith("onnx:")


@pytest.mark.external
async def test_a_running_server_does_the_work_and_searches_continue(person: Person) -> None:
    async with open_app(person.settings) as app:
        with anyio.fail_after(60):
            while (await app.base.index.progress()).done == 0:  # noqa: ASYNC110  the database tells nobody
                await anyio.sleep(0.05)
        command = [sys.executable, "-m", "mcp_server", "embedder", "use", str(person.model), "--yes", *person.words]
        done = await anyio.run_process(command, cwd=ROOT, check=False)
        assert done.returncode in (0, 1), done.stderr
        assert b"has not taken the new embedder" not in done.stdout
        with anyio.fail_after(60):
            while not (await app.base.index.space()).identity.embedder.startswith("onnx:"):
                assert (await app.base.finder.search("roll back the payment service")).hits
                await anyio.sleep(0.05)
        answer = await app.base.finder.search("roll back the payment service")
        assert answer.hits
        assert answer.note is None


@pytest.mark.external
@pytest.mark.skipif(os.name == "nt", reason="kills with a signal that Windows has not")
def test_after_kill_9_it_continues_where_it_was(person: Person) -> None:
    write(person.kb, {f"many/{n}.md": f"# Page {n}\n\n{'roll back ' * 50} {n}\n" for n in range(400)})
    person.says("index")
    command = [sys.executable, "-m", "tests.support.index.slow_transformer", "embedder", "use"]
    process = subprocess.Popen([*command, str(person.model), "--yes", *person.words], cwd=ROOT)

    def progress() -> int:
        renewal = person.json("embedder", "list")["renewal"]
        return 0 if renewal is None else int(renewal["done"])

    until = time.monotonic() + 60
    while progress() == 0:
        assert time.monotonic() < until
        assert process.poll() is None
        time.sleep(0.1)
    process.send_signal(signal.SIGKILL)
    process.wait()
    kept = progress()
    assert kept > 0
    listed = person.json("embedder", "list")
    assert listed["in_use"] == STATIC.embedder, "searches use the old vectors"
    assert listed["wanted"].startswith("onnx:"), "and the choice stays"
    assert person.json("search", "roll back")["hits"]
    assert person.json("index")["waiting"] == ""
    assert person.json("embedder", "list")["in_use"].startswith("onnx:")


async def test_an_endpoint_gets_no_page_before_the_person_agrees(person: Person) -> None:
    async with serving(EmbeddingServer()) as server:

        def asked() -> tuple[int, str, str]:
            url = f"{server.url}?api-key=hidden-key"
            return person.says("embedder", "use", "endpoint:words", "--url", url, "--question-prefix", "q: ")

        code, out, err = await anyio.to_thread.run_sync(asked)
        assert code == 1, err
        assert f"every passage and every question to {server.url}\n" in out
        assert "hidden-key" not in out + err
        sent = " ".join(text for body in server.requests for text in body["input"])
        assert sent
        assert "payment" not in sent
        assert person.file.read_text(encoding="utf-8") == "# mine\n"


async def test_a_key_file_replaces_the_key_in_the_file_of_settings(
    person: Person, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A refused key is answered with the advice to use `--key-file`."""
    (key := person.file.parent / "key").write_text("right-key", encoding="utf-8")
    key.chmod(0o600)
    async with serving(EmbeddingServer(key="right-key")) as server:
        lines = f'embedder = "endpoint:words"\nembedder_url = "{server.url}"\nembedder_key = "old-key"\n'
        person.file.write_text(lines, encoding="utf-8")

        def asked(*more: str) -> tuple[int, str, str]:
            return person.says("embedder", "use", "endpoint:words", "--yes", *more)

        code, _, err = await anyio.to_thread.run_sync(asked)
        assert code != 0
        assert "knowledge-forge embedder use endpoint:words --key-file FILE" in err
        code, _, err = await anyio.to_thread.run_sync(lambda: asked("--key-file", str(key)))
        assert code == 0, err
        assert person.settings.embedder_key == "right-key"
        monkeypatch.setenv("FORGE_EMBEDDER_KEY", "old-key")
        code, _, err = await anyio.to_thread.run_sync(lambda: asked("--key-file", str(key)))
        assert code == 2
        assert "FORGE_EMBEDDER_KEY is set in the environment" in err


async def test_a_key_is_sent_to_no_other_address_than_its_own(person: Person) -> None:
    async with serving(EmbeddingServer()) as one, serving(EmbeddingServer()) as other:
        lines = f'embedder = "endpoint:words"\nembedder_url = "{one.url}"\nembedder_key = "key-of-one"\n'
        person.file.write_text(lines, encoding="utf-8")

        def asked(url: str) -> tuple[int, str, str]:
            return person.says("embedder", "use", "endpoint:words", "--yes", "--url", url)

        code, _, err = await anyio.to_thread.run_sync(lambda: asked(f"{one.url}/"))
        assert (code, "is not sent" in err, person.settings.embedder_key) == (0, False, "key-of-one")
        code, _, err = await anyio.to_thread.run_sync(lambda: asked(other.url))
        assert code == 0, err
        assert "the configured key is for another address and is not sent to this one" in err
        assert person.settings.embedder_key is None
        assert other.requests
        assert (one.keys, other.keys) == ({"Bearer key-of-one"}, set())


@pytest.mark.parametrize(
    ("vector", "says"),
    [
        ([0.0] * 32, "it returns zeros or no numbers for most texts"),
        ([0.25] * 32, "it returns the same vector for different texts"),
        ([1.0, 2.0, 3.0], "its vectors have 3 dimensions, and at least 8 are needed"),
    ],
)
async def test_an_endpoint_whose_vectors_tell_nothing_apart_is_refused(
    person: Person, vector: list[float], says: str
) -> None:
    def useless(texts: list[str], _body: dict[str, Any]) -> Response:
        return JSONResponse({"data": [{"index": at, "embedding": vector} for at in range(len(texts))]})

    async with serving(EmbeddingServer(faults=[useless] * 50)) as server:

        def asked() -> tuple[int, str, str]:
            return person.says("embedder", "use", "endpoint:words", "--url", server.url, "--yes")

        code, _, err = await anyio.to_thread.run_sync(asked)
    assert code != 0
    assert says in err
    assert person.file.read_text(encoding="utf-8") == "# mine\n"


async def test_a_rebuild_sends_only_what_changed_unless_all_vectors_are_to_be_new(person: Person) -> None:
    """Each passage that is sent costs money."""
    async with serving(EmbeddingServer()) as server:

        async def told(*words: str) -> tuple[int, str, str]:
            server.requests.clear()
            return await anyio.to_thread.run_sync(lambda: person.says(*words))

        def sent() -> int:
            return sum(len(body["input"]) for body in server.requests)

        code, _, err = await told("embedder", "use", "endpoint:words", "--url", server.url, "--yes")
        assert code == 0, err
        write(person.kb, {"late.md": "# Late\n\nOne new passage.\n"})
        code, out, err = await told("index", "--rebuild")
        assert code == 0, err
        assert f"; sent to {server.url}: 1\n" in out
        assert sent() == 1
        assert "searched by words only" not in (await told("search", "roll back"))[1]
        code, _, err = await told("index", "--rebuild", "--new-vectors")
        assert (code, sent()) == (1, 0)
        assert f"passages will be sent to {server.url}" in err
        assert "nothing was changed: answer at a terminal, or add --yes" in err
        code, out, _ = await told("index", "--rebuild", "--new-vectors", "--yes")
        assert code == 0
        assert f"passages that kept their vector: 0; sent to {server.url}: {sent()}\n" in out
        assert sent() > 10
        database = next(person.state.rglob("index.db"))
        with closing(sqlite3.connect(database)) as connection:
            connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        sound = database.stat().st_size * 3 // 4  # with the schema
        database.write_bytes(database.read_bytes()[:sound] + b"\xff" * (database.stat().st_size - sound))
        code, _, err = await told("index", "--rebuild")
        assert (code, sent()) == (1, 0)
        assert "the index is damaged and cannot keep vectors, so all passages will be sent" in err
    assert person.says("index", "--new-vectors")[0] == 2


def test_a_variable_that_would_win_over_the_file_is_named(person: Person, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FORGE_EMBEDDER", "static")
    code, _, err = person.says("embedder", "use", str(person.model), "--yes")
    assert code == 2
    assert "FORGE_EMBEDDER is set in the environment" in err


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["nothing-like-that"], "no embedder is called 'nothing-like-that'"),
        (["./nowhere"], "there is no folder"),
        (["endpoint:words"], "needs the address of the endpoint: --url"),
        (["static", "--url", "http://localhost:1/v1"], ""),
    ],
)
def test_a_name_that_is_nothing_is_refused(person: Person, words: list[str], says: str) -> None:
    code, _, err = person.says("embedder", "use", *words, "--yes")
    if says:
        assert code == 2
        assert says in err
    assert "onnx" not in person.file.read_text(encoding="utf-8")


async def test_a_server_with_another_setting_in_its_environment_is_reported(person: Person) -> None:
    settings = person.settings
    async with open_base(settings) as base, held_lease(base) as lease:
        assert lease is not None, "a process that holds the index and does not look at the file"
        command = [sys.executable, "-c", SOON, "embedder", "use", str(person.model), "--yes", *person.words]
        done = await anyio.run_process(command, cwd=ROOT, check=False)
    assert done.returncode == 1
    assert b"has not taken the new embedder yet" in done.stdout


SOON = """
import sys
from mcp_server.cli.embedder import embedder
from mcp_server.__main__ import main
embedder.NOTICED_S = embedder.TTL_S = 0.5
sys.exit(main(sys.argv[1:]))
"""
