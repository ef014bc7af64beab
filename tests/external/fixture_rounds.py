"""Tools that answer with a question first (`InputRequiredResult`, 2026-07-28), as the public suite requires."""

from __future__ import annotations

import json
from typing import Any

from mcp.server.mcpserver import Context
from mcp_types import (
    CreateMessageRequest,
    CreateMessageRequestParams,
    CreateMessageResult,
    ElicitRequest,
    ElicitRequestFormParams,
    ElicitResult,
    InputRequest,
    InputRequiredResult,
    ListRootsRequest,
    ListRootsResult,
    SamplingMessage,
    TextContent,
)

from mcp_server.toolsets.spec import ToolSpec
from tests.external.fixtures import NoArguments, spec

Request = Context[Any, Any]


def form(message: str, field: str, kind: str = "string") -> ElicitRequest:
    """Return a question to the person with one required field."""
    schema = {"type": "object", "properties": {field: {"type": kind}}, "required": [field]}
    return ElicitRequest(params=ElicitRequestFormParams(message=message, requested_schema=schema))


def sample(question: str, max_tokens: int) -> CreateMessageRequest:
    """Return a question to the client's model."""
    message = SamplingMessage(role="user", content=TextContent(type="text", text=question))
    return CreateMessageRequest(params=CreateMessageRequestParams(messages=[message], max_tokens=max_tokens))


def answered(request: Request, key: str) -> Any:
    """Return the client's response under `key`, or None."""
    return (request.input_responses or {}).get(key)


def filled_in(request: Request, key: str, field: str) -> str | None:
    """Return what the person wrote into `field` of the form `key`, or None."""
    response = answered(request, key)
    if not isinstance(response, ElicitResult) or not response.content:
        return None
    return str(response.content.get(field, ""))


async def _elicitation(request: Request, _asked: NoArguments) -> str | InputRequiredResult:
    name = filled_in(request, "user_name", "name")
    if name is not None:
        return f"Hello, {name}!"
    return InputRequiredResult(input_requests={"user_name": form("What is your name?", "name")})


async def _sampling(request: Request, _asked: NoArguments) -> str | InputRequiredResult:
    response = answered(request, "capital_question")
    if isinstance(response, CreateMessageResult):
        return f"The model said: {getattr(response.content, 'text', '')}"
    question = sample("What is the capital of France?", 100)
    return InputRequiredResult(input_requests={"capital_question": question})


async def _roots(request: Request, _asked: NoArguments) -> str | InputRequiredResult:
    response = answered(request, "client_roots")
    if isinstance(response, ListRootsResult):
        return "Roots: " + ", ".join(str(root.uri) for root in response.roots)
    return InputRequiredResult(input_requests={"client_roots": ListRootsRequest()})


async def _state(request: Request, _asked: NoArguments) -> str | InputRequiredResult:
    if request.request_state == "asked" and answered(request, "confirm") is not None:
        return "state-ok"
    return InputRequiredResult(
        input_requests={"confirm": form("Please confirm", "ok", "boolean")}, request_state="asked"
    )


async def _several(request: Request, _asked: NoArguments) -> str | InputRequiredResult:
    wanted: dict[str, InputRequest] = {
        "user_name": form("What is your name?", "name"),
        "greeting": sample("Generate a greeting", 50),
        "client_roots": ListRootsRequest(),
    }
    if request.request_state == "asked" and all(answered(request, key) is not None for key in wanted):
        return "All three were answered."
    return InputRequiredResult(input_requests=wanted, request_state="asked")


async def _rounds(request: Request, _asked: NoArguments) -> str | InputRequiredResult:
    state = json.loads(request.request_state or "{}")
    colour, name = filled_in(request, "step2", "color"), filled_in(request, "step1", "name")
    if "name" in state and colour is not None:
        return f"{state['name']} likes {colour}."
    if "asked" in state and name is not None:
        question = form("Step 2: What is your favorite color?", "color")
        return InputRequiredResult(input_requests={"step2": question}, request_state=json.dumps({"name": name}))
    question = form("Step 1: What is your name?", "name")
    return InputRequiredResult(input_requests={"step1": question}, request_state=json.dumps({"asked": True}))


async def _capabilities(request: Request, _asked: NoArguments) -> InputRequiredResult:
    can = request.client_capabilities
    wanted: dict[str, InputRequest] = {}
    if can is not None and can.sampling is not None:
        wanted["greeting"] = sample("Say hello", 50)
    if can is not None and can.elicitation is not None:
        wanted["user_name"] = form("What is your name?", "name")
    return InputRequiredResult(input_requests=wanted, request_state="asked")


_NAME = "test_input_required_result_"
TOOLS: tuple[ToolSpec[Any, Any, Any], ...] = (
    spec(_NAME + "elicitation", "Asks the person first.", _elicitation),
    spec(_NAME + "sampling", "Asks the client's model first.", _sampling),
    spec(_NAME + "list_roots", "Asks for the client's roots first.", _roots),
    spec(_NAME + "request_state", "Gets its own state back.", _state),
    spec(_NAME + "multiple_inputs", "Asks three things at once.", _several),
    spec(_NAME + "multi_round", "Asks twice.", _rounds),
    spec(_NAME + "tampered_state", "Gets its own state back, or refuses a changed one.", _state),
    spec(_NAME + "capabilities", "Asks only what the client can answer.", _capabilities),
)
