"""The location of one test's Meilisearch index: on the server that the environment names, or on the double."""

from __future__ import annotations

import json
import os
import secrets
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from knowledge.index.engines.meilisearch.engine import MeilisearchKeywordIndex
from knowledge.index.engines.meilisearch.server import MeilisearchAddress, MeilisearchLine
from tests.doubles.meilisearch import serving
from tests.support.index.split_terms import terms_of


def index_at(place: str) -> MeilisearchKeywordIndex:
    """Open the index at a place from `double_place` or `server_place`."""
    url, key, name, lock = json.loads(place)
    line = MeilisearchLine(MeilisearchAddress(url, key))
    return MeilisearchKeywordIndex(line, name, terms_of, lock=Path(lock))


@asynccontextmanager
async def double_place(folder: Path) -> AsyncIterator[str]:
    """Yield a place on a separate double, which runs as long as the test."""
    with serving(key="a key of the double") as double:
        yield json.dumps([double.url, "a key of the double", "kf-test", str(folder / "meilisearch.lock")])


@asynccontextmanager
async def server_place(folder: Path) -> AsyncIterator[str]:
    """Yield a place on the real server; it is deleted afterwards."""
    url = os.environ.get("FORGE_TEST_MEILI_URL")
    if not url:
        pytest.skip("FORGE_TEST_MEILI_URL names no Meilisearch server")
    lock = str(folder / "meilisearch.lock")
    place = json.dumps([url, os.environ.get("FORGE_TEST_MEILI_KEY"), f"kf-test{secrets.token_hex(6)}", lock])
    yield place
    index = index_at(place)
    await index.forget()
    await index.close()
