"""Attachments on the site: only what can't run anything is shown, everything else is saved, and nothing outside is reached."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from urllib.parse import urlencode

import httpx
import pytest

from mcp_server.web.knowledge_pages.files import DOWNLOAD, POLICY
from mcp_server.web.text.site_addresses import file_address
from tests.support.web.review_pages import Place, kept


@pytest.fixture
async def place(tmp_path: Path) -> AsyncIterator[Place]:
    async with kept(tmp_path) as opened:
        yield opened


async def fetched(place: Place, path: str, content: bytes | None = b"<script>alert(1)</script>") -> httpx.Response:
    if content is not None:
        file = place.settings.kb / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(content)
    return await (await place.visitor()).http.get(file_address(path))


@pytest.mark.parametrize(
    ("path", "kind", "content_type"),
    [
        ("img/cup.PNG", "inline", "image/png"),
        ("notes/list.txt", "inline", "text/plain; charset=utf-8"),
        ("board.canvas", "inline", "text/plain; charset=utf-8"),
        ("img/plan.svg", "attachment", "image/svg+xml"),
        ("page.html", "attachment", DOWNLOAD),
        ("page.xhtml", "attachment", DOWNLOAD),
        ("feed.xml", "attachment", DOWNLOAD),
        ("paper.pdf", "attachment", DOWNLOAD),
        ("no suffix", "attachment", DOWNLOAD),
        ("guides/deploy.md", "attachment", DOWNLOAD),
    ],
)
async def test_a_file_is_shown_only_if_its_kind_is_safe(place: Place, path: str, kind: str, content_type: str) -> None:
    answer = await fetched(place, path)
    assert (answer.status_code, answer.content) == (200, b"<script>alert(1)</script>")
    assert answer.headers["content-type"] == content_type
    assert answer.headers["content-disposition"].startswith(f"{kind}; filename*=UTF-8''")
    assert answer.headers["content-security-policy"] == POLICY
    assert answer.headers["x-content-type-options"] == "nosniff"
    assert answer.headers["cross-origin-resource-policy"] == "same-origin"


async def test_a_name_with_any_characters_is_kept_in_the_header(place: Place) -> None:
    answer = await fetched(place, "mäp 1;filename=x.html.png")
    assert answer.headers["content-disposition"] == "inline; filename*=UTF-8''m%C3%A4p%201%3Bfilename%3Dx.html.png"


@pytest.mark.parametrize(
    "path", ["../secret.txt", "/etc/hostname", ".hidden/x.png", ".env", "missing.png", "guides", "", "a\x00b.png"]
)
async def test_a_path_outside_or_hidden_is_refused(place: Place, path: str) -> None:
    (place.settings.kb.parent / "secret.txt").write_text("secret", encoding="utf-8")
    (place.settings.kb / ".env").write_text("secret", encoding="utf-8")
    answer = await (await place.visitor()).http.get(f"/file?{urlencode({'path': path})}")
    assert answer.status_code == 404
    assert "No such file" in answer.text
    assert "secret" not in answer.text.replace("../secret.txt", "")


async def test_a_link_that_leaves_the_knowledge_base_is_refused_and_one_that_stays_is_followed(place: Place) -> None:
    outside = place.settings.kb.parent / "outside.png"
    outside.write_bytes(b"secret")
    (place.settings.kb / "inside.png").write_bytes(b"picture")
    (place.settings.kb / "out.png").symlink_to(outside)
    (place.settings.kb / "up").symlink_to(place.settings.kb.parent)
    (place.settings.kb / "in.png").symlink_to(place.settings.kb / "inside.png")
    assert (await fetched(place, "out.png", None)).status_code == 404
    assert (await fetched(place, "up/outside.png", None)).status_code == 404
    assert (await fetched(place, "in.png", None)).content == b"picture"


async def test_a_stranger_gets_no_file(place: Place) -> None:
    (place.settings.kb / "cup.png").write_bytes(b"picture")
    stranger = await place.visitor(logged_in=False)
    assert (await stranger.http.get(file_address("cup.png"))).status_code == 404
