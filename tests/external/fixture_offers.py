"""The prompts, resources and older methods that the public conformance suite expects of a server."""

from __future__ import annotations

import base64
import json
from typing import Any

from mcp.server.context import ServerRequestContext
from mcp.server.mcpserver import Context
from mcp.server.mcpserver.prompts.base import Message, UserMessage
from mcp_types import (
    EmptyResult,
    InputRequiredResult,
    SetLevelRequestParams,
    SubscribeRequestParams,
    UnsubscribeRequestParams,
)

from mcp_server.protocol.server import ForgeServer
from tests.external.fixture_rounds import filled_in, form
from tests.external.fixture_tools import embedded, picture, red_pixel
from tests.external.fixtures import carry_requests

Prompted = list[Message]


def extend(server: ForgeServer) -> None:
    """Give `server` everything besides tools that the suite looks for."""
    carry_requests(server)
    _add_prompts(server)
    _add_resources(server)
    _add_older_methods(server)


def _add_prompts(server: ForgeServer) -> None:
    async def plain() -> Prompted:
        return [UserMessage("This is a simple prompt for testing.")]

    async def with_arguments(arg1: str, arg2: str) -> Prompted:
        return [UserMessage(f"Prompt with arguments: arg1='{arg1}', arg2='{arg2}'")]

    async def with_resource(resourceUri: str) -> Prompted:  # noqa: N803 - the suite's argument is called that
        resource = embedded(resourceUri, "text/plain", "Embedded resource content for testing.")
        return [UserMessage(resource), UserMessage("Please process the embedded resource above.")]

    async def with_image() -> Prompted:
        return [UserMessage(picture()), UserMessage("Please analyze the image above.")]

    async def asking(ctx: Context[Any, Any]) -> Prompted | InputRequiredResult:
        given = filled_in(ctx, "user_context", "context")
        if given is not None:
            return [UserMessage(f"Keep in mind: {given}")]
        return InputRequiredResult(
            input_requests={"user_context": form("What context should the prompt use?", "context")}
        )

    for name, function in (
        ("test_simple_prompt", plain),
        ("test_prompt_with_arguments", with_arguments),
        ("test_prompt_with_embedded_resource", with_resource),
        ("test_prompt_with_image", with_image),
        ("test_input_required_result_prompt", asking),
    ):
        server.prompt(name=name, description="A prompt that the conformance suite asks for.")(function)


def _add_resources(server: ForgeServer) -> None:
    async def static_text() -> str:
        return "This is the content of the static text resource."

    async def static_binary() -> bytes:
        return base64.b64decode(red_pixel())

    async def templated(id: str) -> str:  # noqa: A002 - the suite's template calls it that
        return json.dumps({"id": id, "templateTest": True, "data": f"Data for ID: {id}"})

    async def watched() -> str:
        return "This resource can be watched."

    for uri, mime_type, function in (
        ("test://static-text", "text/plain", static_text),
        ("test://static-binary", "image/png", static_binary),
        ("test://template/{id}/data", "application/json", templated),
        ("test://watched-resource", "text/plain", watched),
    ):
        server.resource(uri, name=function.__name__, description="For the conformance suite.", mime_type=mime_type)(
            function
        )


def _add_older_methods(server: ForgeServer) -> None:
    """Answer the requests of 2025-era clients that the server itself doesn't answer."""

    async def accept(_ctx: ServerRequestContext[Any, Any], _params: Any) -> EmptyResult:
        return EmptyResult()

    lowlevel = server._lowlevel_server  # the SDK's documented hook for such methods
    for method, params in (
        ("logging/setLevel", SetLevelRequestParams),
        ("resources/subscribe", SubscribeRequestParams),
        ("resources/unsubscribe", UnsubscribeRequestParams),
    ):
        if lowlevel.get_request_handler(method) is None:
            lowlevel.add_request_handler(method, params, accept)
