"""The phases of a team's agent: checkpoints, tools, prompts, and the form of the work. Pure."""

from __future__ import annotations

import re
from collections.abc import Collection
from typing import Annotated

from pydantic import AfterValidator, Field

from agents.engine.events import Json, canonical
from agents.engine.graph import CHECKPOINT_KINDS, CheckpointKind, FeedbackKind, Phase
from agents.engine.progress.feedback import KINDS
from agents.engine.work.form import DROP
from agents.spec.problems import meant, short
from agents.spec.schema.json_schema import ASKS, read_schema
from agents.spec.schema.work_form import SchemaForm
from agents.spec.yaml.block import FileBlock, Words, known, read_block
from agents.spec.yaml.reader import AgentFileReading, PhaseNeed, TemplateText, file_beside, listed
from agents.spec.yaml.values import Marked, UnreadableFile, read_marked
from knowledge.pages.front_matter import read_front_matter

PHASE_NAME = re.compile(r"[A-Z][A-Z0-9_]{0,39}")
SPEAKER_NAME = re.compile(r"[a-z][a-z0-9-]{0,39}")
MOST_PHASES = 20
MOST_PROMPT_CHARS, MOST_SCHEMA_CHARS = 6_000, 6_000
"""Both are sent to the host each time work continues in the phase."""
DECIDING: tuple[CheckpointKind, ...] = ("optional", "blocking")
_PROMPT_FILE = re.compile(r"[\w./ -]+\.md")
_SCHEMA_FILE = re.compile(r"[\w./ -]+\.json")


def _phase_name(name: str) -> str:
    if not PHASE_NAME.fullmatch(name):
        raise ValueError("has an invalid name: use capitals, digits and underscores, at most 40")
    return name


def _speaker_name(name: str) -> str:
    if not SPEAKER_NAME.fullmatch(name):
        raise ValueError(
            f"has the invalid speaker {short(name)}: use lower-case letters, digits and hyphens, at most 40"
        )
    return name


def _place(text: str) -> str:
    channel, slash, topic = (part.strip() for part in text.strip().lstrip("#").partition("/"))
    if text.strip() and not (channel and slash and topic):
        raise ValueError(f"has the invalid place {short(text)} to ask in: write CHANNEL/TOPIC, such as team/decisions")
    return f"{channel}/{topic}" if channel else ""


class PhaseBlock(FileBlock):
    """A phase as its file writes it. `prompt`, `prompt_again` and `work` may be in files of their own."""

    name: Annotated[str, AfterValidator(_phase_name)]
    title: str = Field(default="", max_length=60)
    purpose: str = Field(default="", max_length=300)
    entry: str = Field(default="", max_length=300)
    exit: str = Field(default="", max_length=300)
    checkpoint: Annotated[CheckpointKind, known(CHECKPOINT_KINDS, "has the unknown checkpoint {}")] = "none"
    verified: bool = False
    question: str = Field(default="", max_length=600)
    ask_in: Annotated[str, AfterValidator(_place)] = Field(default="", max_length=160)
    speaker: Annotated[str, AfterValidator(_speaker_name)] = ""
    fresh: bool = False
    alone: bool = False
    feedback: Words[Annotated[FeedbackKind, known(KINDS, "has the unknown kind of feedback {}")]] = ()
    tools: Words[Annotated[str, known(lambda reading: reading.tools, "uses the unknown tool {}")]] = ()
    prompt: Json = None
    prompt_again: Json = None
    work: Json = None


class BuiltInPhaseBlock(PhaseBlock):
    """A phase of a built-in agent. Only code can do the work of an automatic phase."""

    automatic: bool = False


def read_phases(top: Marked, complete: Collection[str], reading: AgentFileReading) -> None:
    """Read the phases; those in `complete` take no work."""
    for item in listed(top, "phases", MOST_PHASES, reading.problems):
        named = item.entries.get("name")
        name = named.value if named is not None and isinstance(named.value, str) else ""
        if name in reading.lines:
            text = f"there are two phases {name!r}, the first at line {reading.lines[name]}"
            reading.problems.add(item.line, text)
            continue
        phase = _phase(item, name, complete, reading)
        if name:
            reading.lines[name] = item.line
            reading.phases.append(phase)


def _phase(marked: Marked, name: str, complete: Collection[str], reading: AgentFileReading) -> Phase:
    """Return the phase; if it is invalid, a phase with only its name, so that nothing else reports the name as unknown."""
    what = f"phase {name!r}" if name else "a phase"
    kind = BuiltInPhaseBlock if reading.built_in else PhaseBlock
    block = read_block(kind, marked, what, reading.problems, reading)
    automatic = isinstance(block, BuiltInPhaseBlock) and block.automatic
    works = name not in complete and not automatic
    prompt, again = (_prompt(marked, key, name, reading) for key in ("prompt", "prompt_again"))
    if works and marked.take("prompt") is None:
        reading.problems.add(marked.line, f"{what} lacks 'prompt', the instructions for the host's model")
    if works:
        _work(marked, name, reading)
    elif marked.take("work") is not None and not automatic:
        text = f"{what} completes the journey, so it takes no work: leave 'work' out"
        reading.problems.add(marked.line_at(["work"]), text)
    if block is None:
        return Phase(name)
    _needs(block, marked, reading)
    return Phase(
        name=name,
        title=block.title,
        purpose=" ".join(block.purpose.split()),
        entry=block.entry,
        exit=block.exit,
        checkpoint=block.checkpoint,
        # What people decide in a topic, no model may relay: it could have read anybody's answer there.
        own_hand=block.verified or bool(block.ask_in),
        ask_in=block.ask_in,
        tools=tuple(dict.fromkeys(block.tools)),
        work_schema=name if works else "",
        prompt=prompt,
        # Without a prompt for returning, the first one is repeated: the host that continues may not have seen it.
        prompt_again=again or prompt,
        speaker=block.speaker,
        fresh=block.fresh,
        alone=block.alone,
        feedback=tuple(dict.fromkeys(block.feedback)),
        automatic=automatic,
    )


def _needs(block: PhaseBlock, marked: Marked, reading: AgentFileReading) -> None:
    """Report keys of a phase that lack another key."""
    what = f"phase {block.name!r}"
    if block.fresh and not block.speaker:
        text = f"{what} begins a new conversation, but has no speaker: name the 'speaker'"
        reading.problems.add(marked.line_at(["fresh"]), text)
    # A transition may ask a person even if the phase does not, so this is checked once the transitions are read.
    if block.verified and block.checkpoint not in DECIDING:
        text = f"{what} is verified, but has no decision: make its checkpoint blocking or optional"
        reading.needs.append(PhaseNeed(block.name, DECIDING, marked.line_at(["verified"]), text, asks=True))
    if block.ask_in and not (block.question and block.checkpoint == "blocking"):
        text = f"{what} has 'ask_in', but nothing waits for the answer: give it a question and make its checkpoint blocking"
        reading.problems.add(marked.line_at(["ask_in"]), text)
    if block.question:
        reading.questions[block.name] = block.question
    if block.question and block.checkpoint == "none":
        text = f"{what} has a question but never asks it: give it a checkpoint"
        kinds: tuple[CheckpointKind, ...] = ("informational", *DECIDING)
        reading.needs.append(PhaseNeed(block.name, kinds, marked.line_at(["question"]), text))


def _prompt(marked: Marked, key: str, phase: str, reading: AgentFileReading) -> str:
    """Return the name of the template, which is recorded; "" without one."""
    found, line, what = marked.take(key), marked.line_at([key]), f"{key!r} of phase {phase!r}"
    if found is None:
        return ""
    if not isinstance(found.value, str) or not found.value.strip():
        reading.problems.add(line, f"{what} must be text or the name of a Markdown file")
        return ""
    template: TemplateText | None = TemplateText(found.value.strip("\n"), reading.file, found.text_line)
    if _PROMPT_FILE.fullmatch(found.value.strip()):
        template = _prompt_file(found.value.strip(), line, what, reading)
    if template is None:
        return ""
    if len(template.text) > MOST_PROMPT_CHARS:
        text = (
            f"{what} has {len(template.text)} characters, at most {MOST_PROMPT_CHARS} are allowed: it is sent each time work "
            "continues there"
        )
        reading.problems.add(template.line, text, template.file)
    name = phase if key == "prompt" else f"{phase}_again"
    reading.texts[name] = template
    return name


def _prompt_file(name: str, line: int, what: str, reading: AgentFileReading) -> TemplateText | None:
    """Return the text of a Markdown file without its front matter."""
    path, raw = file_beside(name, line, what, reading)
    if raw is None:
        return None
    try:
        text = raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        reading.problems.add(raw[: error.start].count(b"\n") + 1, "the file is not UTF-8", path)
        return None
    lines = text.splitlines()
    body = read_front_matter(lines).body
    first = next((number for number in range(body, len(lines)) if lines[number].strip()), None)
    if first is None:
        reading.problems.add(1, "the file has no text after its front matter" if body else "the file is empty", path)
        return None
    return TemplateText("\n".join(lines[first:]).strip(), path, first + 1)


def _work(marked: Marked, phase: str, reading: AgentFileReading) -> None:
    what = f"phase {phase!r}"
    found = marked.take("work")
    if found is None:
        reading.problems.add(marked.line, f"{what} lacks 'work': a JSON Schema of what is submitted there")
    form = _form(found, marked.line_at(["work"]), f"'work' of {what}", reading) if found else None
    if form is None:
        reading.broken_forms.add(phase)
    else:
        reading.forms[phase] = form


def _form(found: Marked, line: int, what: str, reading: AgentFileReading) -> SchemaForm | None:
    """Return the form that a JSON Schema describes, in this file or in one of its own."""
    file = ""
    if isinstance(found.value, str):
        if not _SCHEMA_FILE.fullmatch(found.value.strip()):
            reading.problems.add(line, f"{what} must be a JSON Schema, or the name of a .json file with one")
            return None
        file, raw = file_beside(found.value.strip(), line, what, reading)
        if raw is None:
            return None
        try:
            found = read_marked(raw)
        except UnreadableFile as error:
            reading.problems.add(error.line, error.reason, file)
            return None
    schema = read_schema(found, what, reading.problems, file=file)
    return None if schema is None else _schema_form(schema, found, what, file, reading)


def _schema_form(
    schema: dict[str, Json], found: Marked, what: str, file: str, reading: AgentFileReading
) -> SchemaForm | None:
    properties, asks = schema.get("properties", {}), schema.pop(ASKS, [])
    wrong = list[tuple[list[str], str]]()
    if not properties:
        wrong.append((["properties"], "describes no fields under 'properties'"))
    if DROP in properties:
        wrong.append(
            (["properties", DROP], f"describes {DROP!r}, which every phase has already, for the ids of items to remove")
        )
    if not isinstance(asks, list) or not all(isinstance(name, str) for name in asks):
        wrong.append(([ASKS], f"has an {ASKS!r} that is not a list of field names"))
    else:
        unknown = [name for name in asks if name not in properties]
        wrong += [
            ([ASKS], f"has {short(name)} in {ASKS!r}, which it does not describe{meant(name, properties)}")
            for name in unknown
        ]
    form = SchemaForm(schema, frozenset(asks), reading.most_items) if not wrong else None
    if form is not None and (size := len(canonical(dict(form.schema)))) > MOST_SCHEMA_CHARS:
        text = f"has {size} characters, at most {MOST_SCHEMA_CHARS} are allowed: it is sent to the host each time"
        wrong.append(([], text))
    for path, text in wrong:
        reading.problems.add(found.line_at(path), f"{what} {text}", file)
    return None if wrong else form
