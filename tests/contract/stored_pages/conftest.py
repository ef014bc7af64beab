"""Stored pages need a database that several processes can open."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from knowledge.state.ports import StateStore
from tests.support.state.ledgers import open_shared


@pytest.fixture
async def store(where: str, schema: str) -> AsyncIterator[StateStore]:
    opened = await open_shared(where, schema)
    yield opened
    await opened.close()
