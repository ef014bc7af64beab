"""The tools that the public conformance suite calls, written from its scenarios' descriptions."""

from __future__ import annotations

import base64
import struct
import zlib
from typing import Annotated, Any

import anyio
from mcp.server.mcpserver import Context
from mcp.shared.exceptions import MCPError
from mcp_types import (
    MISSING_REQUIRED_CLIENT_CAPABILITY,
    AudioContent,
    ContentBlock,
    EmbeddedResource,
    ImageContent,
    SamplingMessage,
    TextContent,
    TextResourceContents,
)
from pydantic import Field

from mcp_server.toolsets.spec import Arguments, ToolSpec
from tests.external.fixtures import IntendedFailure, NoArguments, declaration, spec, text

PAUSE_S = 0.05
RECONNECT_S = 0.3
"""Longer than the client's wait before it reconnects, so that the answer reaches the second stream."""

Request = Context[Any, Any]


class Prompted(Arguments):
    """Arguments of the sampling fixture."""

    prompt: str


class Asked(Arguments):
    """Arguments of the elicitation fixture."""

    message: str


class Regional(Arguments):
    """Arguments of the header fixture; the client repeats the region in an HTTP header."""

    region: Annotated[str, Field(json_schema_extra={"x-mcp-header": "Region"})] = "nowhere"


def red_pixel() -> str:
    """Return a PNG of one red pixel, in base64."""

    def part(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    header = struct.pack(">IIBBBBB", 1, 1, 8, 2, 0, 0, 0)
    body = part(b"IHDR", header) + part(b"IDAT", zlib.compress(b"\x00\xff\x00\x00")) + part(b"IEND", b"")
    return base64.b64encode(b"\x89PNG\r\n\x1a\n" + body).decode()


def silence() -> str:
    """Return a WAV of one silent sample, in base64."""
    form = struct.pack("<4sIHHIIHH", b"fmt ", 16, 1, 1, 8000, 8000, 1, 8)
    data = struct.pack("<4sI2s", b"data", 1, b"\x80\x00")
    return base64.b64encode(struct.pack("<4sI4s", b"RIFF", 4 + len(form) + len(data), b"WAVE") + form + data).decode()


def embedded(uri: str, mime_type: str, words: str) -> EmbeddedResource:
    """Return a text resource embedded in a result."""
    return EmbeddedResource(type="resource", resource=TextResourceContents(uri=uri, mime_type=mime_type, text=words))


def picture() -> ImageContent:
    """Return the red pixel as content."""
    return ImageContent(type="image", data=red_pixel(), mime_type="image/png")


async def _simple_text(_request: Request, _asked: NoArguments) -> str:
    return "This is a simple text response for testing."


async def _image(_request: Request, _asked: NoArguments) -> list[ContentBlock]:
    return [picture()]


async def _audio(_request: Request, _asked: NoArguments) -> list[ContentBlock]:
    return [AudioContent(type="audio", data=silence(), mime_type="audio/wav")]


async def _embedded_resource(_request: Request, _asked: NoArguments) -> list[ContentBlock]:
    return [embedded("test://embedded-resource", "text/plain", "This is an embedded resource content.")]


async def _mixed(_request: Request, _asked: NoArguments) -> list[ContentBlock]:
    data = embedded("test://mixed-content-resource", "application/json", '{"test":"data","value":123}')
    return [text("Multiple content types test:"), picture(), data]


async def _log(request: Request, words: str) -> None:
    await request.session.send_log_message(level="info", data=words, related_request_id=request.request_id)


async def _logging(request: Request, _asked: NoArguments) -> str:
    for words in ("Tool execution started", "Tool processing data", "Tool execution completed"):
        await _log(request, words)
        await anyio.sleep(PAUSE_S)
    return "Logged three times."


async def _progress(request: Request, _asked: NoArguments) -> str:
    for step in (0, 50, 100):
        await request.report_progress(step, 100, f"{step} of 100")
        await anyio.sleep(PAUSE_S)
    return "Reported three times."


async def _failure(_request: Request, _asked: NoArguments) -> str:
    raise IntendedFailure("this tool always fails, so that clients can be tested with a failure")


async def _sampling(request: Request, asked: Prompted) -> str:
    message = SamplingMessage(role="user", content=TextContent(type="text", text=asked.prompt))
    # Without the related request, the question would go to a stream that perhaps nobody has opened.
    answer = await request.session.create_message([message], max_tokens=100, related_request_id=request.request_id)
    return f"LLM response: {getattr(answer.content, 'text', '')}"


async def _elicit(request: Request, message: str, properties: dict[str, Any]) -> str:
    schema = {"type": "object", "properties": properties, "required": list(properties)}
    answer = await request.session.elicit_form(message, schema, related_request_id=request.request_id)
    return f"User response: action={answer.action}, content={answer.content or {}}"


async def _elicitation(request: Request, asked: Asked) -> str:
    return await _elicit(
        request,
        asked.message,
        {
            "username": {"type": "string", "description": "User's response"},
            "email": {"type": "string", "description": "User's email address"},
        },
    )


async def _defaults(request: Request, _asked: NoArguments) -> str:
    return await _elicit(
        request,
        "Check what is filled in",
        {
            "name": {"type": "string", "default": "John Doe"},
            "age": {"type": "integer", "default": 30},
            "score": {"type": "number", "default": 95.5},
            "status": {"type": "string", "enum": ["active", "inactive", "pending"], "default": "active"},
            "verified": {"type": "boolean", "default": True},
        },
    )


async def _enums(request: Request, _asked: NoArguments) -> str:
    plain = ["option1", "option2", "option3"]
    titled = [{"const": f"value{n}", "title": f"{word} choice"} for n, word in enumerate(("First", "Second"), 1)]
    return await _elicit(
        request,
        "Choose in five ways",
        {
            "untitledSingle": {"type": "string", "enum": plain},
            "titledSingle": {"type": "string", "oneOf": titled},
            "legacyEnum": {"type": "string", "enum": ["opt1", "opt2"], "enumNames": ["Option one", "Option two"]},
            "untitledMulti": {"type": "array", "items": {"type": "string", "enum": plain}},
            "titledMulti": {"type": "array", "items": {"anyOf": titled}},
        },
    )


async def _header(_request: Request, asked: Regional) -> str:
    return f"region={asked.region}"


async def _needs_sampling(request: Request, _asked: NoArguments) -> str:
    declared = request.client_capabilities
    if declared is None or declared.sampling is None:
        raise MCPError(
            MISSING_REQUIRED_CLIENT_CAPABILITY,
            "this tool asks the client's model, and the client declared no sampling",
            {"requiredCapabilities": {"sampling": {}}},
        )
    return "The client can sample."


async def _one_log_line(request: Request, _asked: NoArguments) -> str:
    await _log(request, "said only to those who asked for log messages")
    return "Logged once."


async def _reconnection(request: Request, _asked: NoArguments) -> str:
    await request.close_sse_stream()
    await anyio.sleep(RECONNECT_S)
    return "Still here after the stream was closed."


async def _tools_changed(request: Request, _asked: NoArguments) -> str:
    await request.notify_tools_changed()
    return "Said that the tools changed."


async def _prompts_changed(request: Request, _asked: NoArguments) -> str:
    await request.notify_prompts_changed()
    return "Said that the prompts changed."


class Schema202012(ToolSpec[Any, Any, Any]):
    """A tool whose listing keeps every keyword of JSON Schema 2020-12 that the suite looks for."""

    input_schema = {  # noqa: RUF012 - a constant stands where other tools derive theirs
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "type": "object",
        "$defs": {
            "address": {
                "$anchor": "addressDef",
                "type": "object",
                "properties": {"street": {"type": "string"}, "city": {"type": "string"}},
            }
        },
        "properties": {
            "name": {"type": "string"},
            "address": {"$ref": "#/$defs/address"},
            "contactMethod": {"type": "string", "enum": ["phone", "email"]},
            "phone": {"type": "string"},
            "email": {"type": "string"},
        },
        "allOf": [{"anyOf": [{"required": ["phone"]}, {"required": ["email"]}]}],
        "if": {"properties": {"contactMethod": {"const": "phone"}}, "required": ["contactMethod"]},
        "then": {"required": ["phone"]},
        "else": {"required": ["email"]},
        "additionalProperties": False,
    }


TOOLS: tuple[ToolSpec[Any, Any, Any], ...] = (
    spec("test_simple_text", "Answers with a text.", _simple_text),
    spec("test_image_content", "Answers with a picture.", _image),
    spec("test_audio_content", "Answers with a sound.", _audio),
    spec("test_embedded_resource", "Answers with an embedded resource.", _embedded_resource),
    spec("test_multiple_content_types", "Answers with text, picture and resource.", _mixed),
    spec("test_tool_with_logging", "Sends log messages while it runs.", _logging),
    spec("test_tool_with_progress", "Reports progress while it runs.", _progress),
    spec("test_error_handling", "Always fails.", _failure),
    spec("test_sampling", "Asks the client's model.", _sampling, Prompted),
    spec("test_elicitation", "Asks the person two things.", _elicitation, Asked),
    spec("test_elicitation_sep1034_defaults", "Asks with every kind of default.", _defaults),
    spec("test_elicitation_sep1330_enums", "Asks with every kind of choice.", _enums),
    spec("test_x_mcp_header", "Takes an argument that is repeated in a header.", _header, Regional),
    spec("test_missing_capability", "Works only for clients that can sample.", _needs_sampling),
    spec("test_logging_tool", "Logs once.", _one_log_line),
    spec("test_streaming_elicitation", "Answers by a stream without asking on it.", _progress),
    spec("test_reconnection", "Closes the stream before it answers.", _reconnection),
    spec("test_trigger_tool_change", "Announces that the tools changed.", _tools_changed),
    spec("test_trigger_prompt_change", "Announces that the prompts changed.", _prompts_changed),
    Schema202012(**declaration("json_schema_2020_12_tool", "Has a schema with every keyword.", _simple_text)),
)
