"""What a person sees who sets another embedder: real servers, real databases, an endpoint on loopback."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from dataclasses import replace
from pathlib import Path

import anyio
import anyio.to_thread
import pytest

from knowledge.errors import EmbedderUnavailable
from knowledge.extras import install_command
from knowledge.search.answers import SearchAnswer
from knowledge.state.ports import IndexIdentity, Space
from mcp_server.app.composition import App, open_app
from mcp_server.app.factories.embedder import STATIC, wanted_identity
from mcp_server.app.freshness.index_update import bring_up_to_date, held_lease
from mcp_server.app.knowledge_base import KnowledgeBase, open_base
from mcp_server.app.settings.loader import BadSetting, load, with_current_embedder
from mcp_server.app.settings.settings import Settings
from mcp_server.cli.doctor import doctor
from tests.support.index.embedding_server import EmbeddingServer, serving
from tests.support.index.tiny_transformer import words_of, write_transformer
from tests.support.knowledge_bases.folders import write

KEY = "sk-very-secret"
QUESTION = "roll back the payment service"


@pytest.fixture
def plain(tmp_path: Path) -> Settings:
    return Settings(kb=write(tmp_path / "kb"), state_dir=tmp_path / "state")


def asking(settings: Settings, server: EmbeddingServer, **other: object) -> Settings:
    endpoint = replace(settings, embedder="endpoint:words", embedder_url=server.url, embedder_key=KEY)
    return replace(endpoint, **other)  # type: ignore[arg-type]  # keyword arguments of a test


def holding_the_key(folder: Path) -> list[Path]:
    return [file for file in folder.rglob("*") if file.is_file() and KEY.encode() in file.read_bytes()]


async def until(holds: Callable[[], Awaitable[bool]]) -> None:
    with anyio.fail_after(60):
        while not await holds():  # noqa: ASYNC110  what is waited for happens in databases, which tell nobody
            await anyio.sleep(0.02)


async def settled(base: KnowledgeBase, embedder: str) -> Space:
    async def is_so() -> bool:
        space, progress = await base.index.space(), await base.index.progress()
        return space.identity.embedder == embedder and space.coming is None and 0 < progress.total <= progress.done

    await until(is_so)
    return await base.index.space()


async def ask(base: KnowledgeBase) -> SearchAnswer:
    answer = await base.finder.search(QUESTION)
    assert answer.hits[0].path == "guides/deploy.md"
    return answer


async def indexed(settings: Settings) -> None:
    async with open_base(settings) as base, held_lease(base) as lease:
        assert lease is not None
        await bring_up_to_date(base, lease, vectors=True)


async def test_another_embedder_takes_over_while_searches_go_on_and_other_processes_notice(plain: Settings) -> None:
    await indexed(plain)
    server = EmbeddingServer(key=KEY)
    gate = anyio.Event()
    server.before = gate.wait
    async with AsyncExitStack() as stack:
        await stack.enter_async_context(serving(server))
        settings = asking(plain, server)
        other: KnowledgeBase = await stack.enter_async_context(open_base(settings))
        alone: KnowledgeBase = await stack.enter_async_context(open_base(plain))
        app: App = await stack.enter_async_context(open_app(settings))

        async def began() -> bool:
            return bool(server.requests)

        await until(began)
        space = await app.base.index.space()
        assert (space.identity, space.wanted) == (STATIC, wanted_identity(settings))
        for base in (app.base, other, alone):
            assert (await ask(base)).note is None, "searched with the old vectors, by all"
        found = {finding.what: finding for finding in await doctor.examine(plain)}
        assert "but the settings name static" in found["vectors"].found
        assert all(body["input"] != [QUESTION] for body in server.requests)
        gate.set()
        swapped = await settled(app.base, "endpoint:words/1")
        assert swapped.identity == IndexIdentity("endpoint:words/1", 32, STATIC.recipe), "its length was learned"
        for base in (app.base, other):
            assert (await ask(base)).note is None
        assert sum(body["input"] == [QUESTION] for body in server.requests) == 2, "with the new embedder at once"
        note = (await ask(alone)).note
        assert note is not None
        assert "searched by words only" in note
        assert "embedder use endpoint:words --url URL" in note, (
            "a process without the endpoint searches by words, and its note says how to give the address"
        )
        found = {finding.what: finding for finding in await doctor.examine(settings)}
        assert "vectors" not in found
        assert "endpoint:words/1" in found["engines"].found


async def test_a_page_that_is_saved_afterwards_is_embedded_by_the_new_one(plain: Settings) -> None:
    async with serving(EmbeddingServer(key=KEY)) as server:
        settings = asking(plain, server)
        await indexed(settings)
        write(plain.kb, {"late.md": "# Late\n\nzebras and giraffes\n"})
        server.requests.clear()
        await indexed(settings)
        assert any("zebras" in text for body in server.requests for text in body["input"])
        assert all(len(body["input"]) < 5 for body in server.requests), "and nothing else is"


async def test_an_endpoint_that_is_down_holds_up_neither_index_nor_search(plain: Settings) -> None:
    down = replace(plain, embedder="endpoint:words", embedder_url="http://127.0.0.1:9/v1")
    async with open_base(down) as base, held_lease(base) as lease:
        assert lease is not None
        base_done = await bring_up_to_date(base, lease)
        assert base_done.changed > 0
        assert (await ask(base)).note is None, "an empty index begins with the embedder that is always there"
        space = await base.index.space()
        assert (space.identity, space.coming) == (STATIC, wanted_identity(down))
    found = {finding.what: finding for finding in await doctor.examine(down)}
    assert found["vectors"].health == "bad"
    assert "searches use those of static" in found["vectors"].found
    assert "no answer (ConnectError)" in found["vectors"].found
    async with open_base(plain) as base, held_lease(base) as lease:
        assert lease is not None
        await bring_up_to_date(base, lease)  # as `search` does it
        assert await base.index.space() == space, "a look from a host with other settings takes nothing back"


async def test_what_was_saved_while_the_endpoint_was_down_is_counted_the_same_everywhere(plain: Settings) -> None:
    """One line said that all passages have vectors, and another that one has none."""
    async with serving(EmbeddingServer(key=KEY)) as server:
        settings = asking(plain, server)
        await indexed(settings)
        down = replace(settings, embedder_url="http://127.0.0.1:9/v1")
        write(plain.kb, {"late.md": "# Late\n\nzebras and giraffes\n"})
        await indexed(down)
        found = {finding.what: finding for finding in await doctor.examine(down)}
        counts = [found[what].found.partition(" passages have vectors")[0] for what in ("coverage", "vectors")]
        done, total = counts[1].split(" of ")
        assert int(total) - int(done) == 1
        assert counts[0].endswith(f"; {counts[1]}")
        assert (found["coverage"].health, found["coverage"].mend) == ("note", "")
        assert found["vectors"].mend.endswith("then run knowledge-forge index, or leave it to a running server")
        back = {finding.what: finding for finding in await doctor.examine(settings)}
        assert "a running server makes them" in back["vectors"].mend
        await indexed(settings)
        after = {finding.what: finding for finding in await doctor.examine(settings)}
        assert f"all {total} passages have vectors" in after["coverage"].found
        assert "vectors" not in after


async def test_an_endpoint_finds_across_languages_if_its_name_is_known_or_a_person_declares_it(plain: Settings) -> None:
    async with serving(server := EmbeddingServer(key=KEY)):
        for settings, across in (
            (asking(plain, server), False),
            (asking(plain, server, embedder_multilingual=True), True),
            (asking(plain, server, embedder="endpoint:BAAI/bge-m3"), True),
            (asking(plain, server, embedder="endpoint:BAAI/bge-m3", embedder_multilingual=False), False),
        ):
            async with open_base(settings) as base:
                embedder = await base.embedding.questions(wanted_identity(settings))
                assert embedder.multilingual is across


async def test_another_model_behind_the_same_address_is_noticed_and_not_compared(plain: Settings) -> None:
    """llama.cpp, for one, ignores the requested model's name."""
    async with serving(EmbeddingServer(key=KEY)) as server:
        settings = asking(plain, server)
        await indexed(settings)
        reply = server.reply

        async def other_model(texts: list[str], body: dict[str, object]) -> dict[str, object]:
            return await reply([text[::-1] for text in texts], body)

        server.reply = other_model  # type: ignore[method-assign]  # another model from now on
        async with open_base(settings) as base:
            note = (await ask(base)).note
        assert note is not None
        assert "vectors differ from those in the index" in note
        assert "--rebuild" in note


async def test_going_back_to_static_needs_no_endpoint(plain: Settings) -> None:
    async with serving(EmbeddingServer(key=KEY)) as server:
        await indexed(asking(plain, server, embedder_dimensions=16, embedder_question_prefix="query: "))
        async with open_base(plain) as base:
            recorded = (await base.index.space()).identity
        assert recorded.embedder.startswith("endpoint:words@16+")
        assert recorded.dimensions == 16
    await indexed(plain)
    async with open_base(plain) as base:
        assert (await base.index.space()).identity == STATIC
        assert (await ask(base)).note is None


async def test_fastembed_that_is_not_installed_is_said_with_the_extra(plain: Settings) -> None:
    try:
        import fastembed  # noqa: F401 - only whether it can be had is asked
    except ImportError:
        pass
    else:
        pytest.skip("fastembed is installed")
    settings = replace(plain, embedder="fastembed:BAAI/bge-small-en-v1.5")
    async with open_base(settings) as base, held_lease(base) as lease:
        assert lease is not None
        done = await bring_up_to_date(base, lease, vectors=True)
        assert install_command("fastembed") in done.waiting
        assert (await ask(base)).note is None
        with pytest.raises(EmbedderUnavailable, match="bge-small"):
            await base.indexer.renew(lease.fence)


@pytest.mark.external
async def test_a_running_server_notices_the_embedder_that_the_configuration_file_names(
    plain: Settings, tmp_path: Path
) -> None:
    model = write_transformer(tmp_path / "tiny", words_of(*(page.read_text() for page in plain.kb.rglob("*.md"))))
    file = tmp_path / "forge.toml"
    settings = replace(plain, file_place=file)
    name = wanted_identity(replace(plain, embedder=f"onnx:{model}")).embedder
    async with open_app(settings) as app, open_base(settings) as other:
        await settled(app.base, STATIC.embedder)
        file.write_text(f'embedder = "onnx:{model}"\n', encoding="utf-8")
        file.chmod(0o600)
        assert (await settled(app.base, name)).identity.dimensions == 32
        for base in (app.base, other):
            assert (await ask(base)).note is None, (
                "questions are embedded by the new model, in processes that only search too"
            )
        found = {finding.what: finding for finding in await doctor.examine(settings)}
        assert name in found["engines"].found
        write(plain.kb, {"late.md": "# Late\n\nnew page\n"})
        file.write_text("embedder = [\n", encoding="utf-8")

        async def stored() -> bool:
            return await app.base.index.document("late.md") is not None

        await until(stored)
        assert (await settled(app.base, name)).coming is None, "a file that cannot be read changes nothing"
        file.write_text('embedder = "static"\n', encoding="utf-8")
        await settled(app.base, STATIC.embedder)
        assert (await ask(app.base)).note is None


def test_the_environment_wins_over_a_file_that_changes_later(tmp_path: Path) -> None:
    file = tmp_path / "forge.toml"
    file.write_text('embedder = "static"\n', encoding="utf-8")
    named = {"FORGE_CONFIG": str(file)}
    chosen = load({}, named | {"FORGE_EMBEDDER": "fastembed:m", "FORGE_EMBEDDER_KEY": KEY}, cwd=tmp_path)
    free = load({}, named, cwd=tmp_path)
    (tmp_path / "key").write_text(KEY, encoding="utf-8")
    file.write_text(
        'embedder = "endpoint:m"\nembedder_url = "http://localhost:1/v1"\nembedder_key_file = "key"\ntoolsets = "plane"\n',
        encoding="utf-8",
    )
    assert with_current_embedder(chosen).embedder == "fastembed:m"
    assert with_current_embedder(chosen).embedder_key == KEY
    now = with_current_embedder(free)
    assert (now.embedder, now.embedder_url, now.embedder_key) == ("endpoint:m", "http://localhost:1/v1", KEY)
    assert now.toolsets == free.toolsets, "nothing else changes in a running server"
    file.write_text("", encoding="utf-8")
    assert with_current_embedder(now).embedder == "static"
    file.write_text('embedder = "endpoint:m"\n', encoding="utf-8")
    with pytest.raises(
        BadSetting, match="needs the address of the endpoint; in a file of settings that is embedder_url"
    ):
        with_current_embedder(now)


async def test_a_model_whose_files_were_replaced_gives_every_page_new_vectors(plain: Settings, tmp_path: Path) -> None:
    words = words_of(*(page.read_text() for page in plain.kb.rglob("*.md")))
    settings = replace(plain, embedder=f"onnx:{write_transformer(tmp_path / 'tiny', words)}")
    await indexed(settings)
    before = wanted_identity(settings)
    write_transformer(tmp_path / "tiny", words, kind="b")
    async with open_base(settings) as base, held_lease(base) as lease:
        assert (await base.index.space()).identity.embedder == before.embedder
        note = (await ask(base)).note
        assert note is not None
        assert "its files have changed" in note
        assert lease is not None
        done = await bring_up_to_date(base, lease, vectors=True)
        assert done.waiting == ""
        assert (await base.index.space()).identity.embedder == wanted_identity(settings).embedder != before.embedder
        assert (await ask(base)).note is None


async def test_a_model_that_is_gone_holds_up_nothing_and_doctor_says_so(plain: Settings, tmp_path: Path) -> None:
    settings = replace(plain, embedder=f"onnx:{tmp_path / 'nothing'}")
    async with open_base(settings) as base, held_lease(base) as lease:
        assert lease is not None
        done = await bring_up_to_date(base, lease, vectors=True)
        assert "there is no folder" in done.waiting
        assert (await ask(base)).note is None
    found = {finding.what: finding for finding in await doctor.examine(settings)}
    assert found["vectors"].health == "bad"
    assert "there is no folder" in found["vectors"].found


@pytest.mark.parametrize("wrong", ["there is no folder", "model.onnx cannot be loaded"])
async def test_nobody_promises_vectors_that_a_broken_model_cannot_make(
    plain: Settings, tmp_path: Path, wrong: str
) -> None:
    """Only a person can restore the files, so every message says what is wrong, what searches use, and what to do."""
    words = words_of(*(page.read_text() for page in plain.kb.rglob("*.md")))
    model = write_transformer(tmp_path / "tiny", words)
    settings = replace(plain, embedder=f"onnx:{model}")
    await indexed(settings)
    if "folder" in wrong:
        model.rename(tmp_path / "elsewhere")
    else:
        (model / "model.onnx").write_bytes(b"\x00not a model")
    for _ in range(2):  # before and after the index has learned which embedder is wanted
        found = {finding.what: finding for finding in await doctor.examine(settings)}
        assert found["vectors"].health == "bad"
        assert "pages are found by words only until then" in found["vectors"].found
        async with open_base(settings) as base, held_lease(base) as lease:
            note = (await ask(base)).note
            assert lease is not None
            waiting = (await bring_up_to_date(base, lease, vectors=True)).waiting
        told = [note or "", waiting, *(f"{found[what].found} {found[what].mend}" for what in ("engines", "vectors"))]
        for said in told:
            assert wrong in said
            assert "restore its files, or choose another model: knowledge-forge embedder list" in said
            assert "being made" not in said
            assert "in the background" not in said
        assert "knowledge-forge index" not in found["search"].mend


async def test_the_key_is_nowhere_to_be_read(plain: Settings, tmp_path: Path) -> None:
    async with serving(EmbeddingServer(key=KEY)) as server:
        settings = asking(plain, server)
        await indexed(settings)
        findings = await doctor.examine(replace(settings, embedder_key="sk-wrong-secret"))
    assert KEY not in repr(settings)
    assert "sk-wrong-secret" not in repr(findings)
    assert any("refuses the key" in finding.found for finding in findings)
    assert not await anyio.to_thread.run_sync(holding_the_key, tmp_path)


ENDPOINT = {"FORGE_EMBEDDER": "endpoint:m", "FORGE_EMBEDDER_URL": "http://localhost:1/v1"}


@pytest.mark.parametrize(
    ("environ", "says"),
    [
        ({"FORGE_EMBEDDER": "endpoint:m"}, "FORGE_EMBEDDER=endpoint:m needs the address"),
        ({"FORGE_EMBEDDER": "endpoint:"}, "'endpoint:' is not available"),
        ({"FORGE_EMBEDDER": "openai"}, "onnx:PATH, fastembed:MODEL, endpoint:MODEL"),
        ({"FORGE_EMBEDDER": "onnx:models/tiny"}, "'models/tiny' is a relative path"),
        ({"FORGE_EMBEDDER_THREADS": "0"}, "from 1 to 64"),
        (ENDPOINT | {"FORGE_EMBEDDER_URL": "localhost:11434"}, "is not like https://"),
        (ENDPOINT | {"FORGE_EMBEDDER_URL": "http://me:secret@host/v1"}, "holds a user or password"),
        (ENDPOINT | {"FORGE_EMBEDDER_URL": "http://host:99999999/v1?secret"}, "is not like https://"),
        (ENDPOINT | {"FORGE_EMBEDDER_DIMENSIONS": "4"}, "from 8 to 8192"),
        (ENDPOINT | {"FORGE_EMBEDDER_ENCODING": "int8"}, "is not one of: float, base64"),
        (ENDPOINT | {"FORGE_EMBEDDER_KEY": "secret with blanks"}, "a key can't have"),
        (ENDPOINT | {"FORGE_EMBEDDER_KEY_FILE": "/nowhere/secret-is-not-here"}, "no such file"),
    ],
)
def test_settings_that_cannot_be_used_are_named_without_their_secrets(
    environ: dict[str, str], says: str, tmp_path: Path
) -> None:
    with pytest.raises(BadSetting) as caught:
        load({}, environ, cwd=tmp_path)
    assert says in str(caught.value)
    assert "me:secret" not in str(caught.value)
    assert "secret with" not in str(caught.value)


def test_the_key_may_be_in_a_file_and_the_file_next_to_forge_toml(tmp_path: Path) -> None:
    (tmp_path / "key").write_text(f"{KEY}\n", encoding="utf-8")
    (tmp_path / "forge.toml").write_text(
        'embedder = "endpoint:m"\nembedder_url = "https://h/v1"\nembedder_key_file = "key"\n'
        'embedder_question_prefix = "query: "\nembedder_dimensions = 256\n',
        encoding="utf-8",
    )
    settings = load({}, {"FORGE_CONFIG": str(tmp_path / "forge.toml")}, cwd=tmp_path)
    assert settings.embedder_key == KEY
    assert KEY not in repr(settings)
    assert settings.embedder_question_prefix == "query: ", "with its blank"
    identity = wanted_identity(settings)
    assert identity.embedder.startswith("endpoint:m@256+")
    assert identity.dimensions == 256
    assert "https" not in identity.embedder


def test_what_is_wanted_is_known_without_loading_or_asking() -> None:
    assert wanted_identity(Settings(kb=Path())) == STATIC
    local = wanted_identity(Settings(kb=Path(), embedder="fastembed:BAAI/bge-small-en-v1.5"))
    assert local == IndexIdentity("fastembed:BAAI/bge-small-en-v1.5/1", 0, STATIC.recipe)


async def test_the_static_identity_is_what_the_embedder_says() -> None:
    from knowledge.index.embed.static import StaticEmbedder

    assert (STATIC.embedder, STATIC.dimensions) == (StaticEmbedder().name, StaticEmbedder().dimensions)
