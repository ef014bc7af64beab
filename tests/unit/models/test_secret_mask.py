"""A provider never reveals its key, whatever characters the key has and wherever a server repeats it."""

from __future__ import annotations

import json

import pytest

from agents.loop.model.errors import Malformed, ProviderError, Rejected
from agents.loop.model.ports import Echo, FromUser, JsonReply, ModelReply, ModelRequest, ModelUsage, Shape, ToolUse
from mcp_server.models.secret_mask import MASK, Masked

KEYS = ["sk-0123456789abcdef", "sk-\\012\"345'6789", "sk/0123+4567=="]
ASKED = ModelRequest("test_iter1_0a1b2c3d", (FromUser("goal"),))
SHAPE = Shape("any", {"type": "object"})


class Repeating:
    """A model whose server repeats a key wherever there is room for words; `error` is raised instead, if set."""

    name, model = "repeating", "some-model"

    def __init__(self, key: str, error: ProviderError | None = None) -> None:
        self.key, self.error = key, error

    async def complete(self, _asked: ModelRequest) -> ModelReply:
        """Answer with the key in every text."""
        if self.error:
            raise self.error
        use = ToolUse(f"id-{self.key}", self.key, {"query": [f"a {self.key}"], self.key: 1}, f"not {self.key}")
        arguments = json.dumps({"query": self.key})
        echo = Echo(self.name, self.model, json.dumps([{"arguments": arguments}]))
        return ModelReply(f"you sent {self.key}", (use,), "tools", ModelUsage(), self.key, self.key, echo)

    async def complete_json(self, _asked: ModelRequest, _shape: Shape) -> JsonReply:
        """Answer with the key in the JSON."""
        if self.error:
            raise self.error
        return JsonReply({"line": f"you sent {self.key}"}, ModelUsage(), self.key, self.key)

    async def aclose(self) -> None:
        """Have nothing to close."""


@pytest.mark.parametrize("key", KEYS)
async def test_a_key_of_whatever_characters_is_taken_out_of_answers(key: str) -> None:
    masked = Masked(Repeating(key), key)
    said, told = await masked.complete(ASKED), await masked.complete_json(ASKED, SHAPE)
    (use,) = said.uses
    assert (said.text, said.model, said.request, said.echo) == (f"you sent {MASK}", MASK, MASK, None)
    assert (use.id, use.name, use.problem) == (f"id-{MASK}", MASK, f"not {MASK}")
    assert use.arguments == {"query": [f"a {MASK}"], MASK: 1}
    assert (told.value, told.model, told.request) == ({"line": f"you sent {MASK}"}, MASK, MASK)


@pytest.mark.parametrize("key", KEYS)
async def test_an_error_that_holds_a_key_of_whatever_characters_is_another(key: str) -> None:
    masked = Masked(Repeating(key, Rejected("repeating", 400, key, "check it")), key)
    for asking in (masked.complete(ASKED), masked.complete_json(ASKED, SHAPE)):
        with pytest.raises(Malformed) as raised:
            await asking
        assert key not in f"{raised.value}"


async def test_text_without_a_key_stays_unchanged() -> None:
    masked = Masked(Repeating("other"), KEYS[0])
    assert await masked.complete(ASKED) == await Repeating("other").complete(ASKED)
    assert await masked.complete_json(ASKED, SHAPE) == await Repeating("other").complete_json(ASKED, SHAPE)
