"""The phases of a team's agent: what a person is asked, tools, prompts, and the form of the work. Pure."""

from __future__ import annotations

import re
from collections.abc import Collection
from typing import cast

from agents.engine.events import Json, canonical
from agents.engine.graph import CHECKPOINT_KINDS, CheckpointKind, FeedbackKind, Phase
from agents.engine.progress.feedback import KINDS
from agents.engine.work.form import DROP
from agents.spec.problems import meant, short
from agents.spec.schema.json_schema import ASKS, read_schema
from agents.spec.schema.work_form import SchemaForm
from agents.spec.yaml.block import MappingReader
from agents.spec.yaml.reader import AgentFileReading, Needing, TemplateText, beside, listed
from agents.spec.yaml.values import Marked, UnreadableFile, read_marked
from knowledge.pages.front_matter import read_front_matter

PHASE_NAME = re.compile(r"[A-Z][A-Z0-9_]{0,39}")
SPEAKER_NAME = re.compile(r"[a-z][a-z0-9-]{0,39}")
MOST_PHASES = 20
MOST_PROMPT_CHARS = 6_000
MOST_SCHEMA_CHARS = 6_000
_NOTHING = Marked(None, 0)
DECIDING: tuple[CheckpointKind, ...] = ("optional", "blocking")
_PROMPT_FILE = re.compile(r"[\w./ -]+\.md")
_SCHEMA_FILE = re.compile(r"[\w./ -]+\.json")


def read_phases(top: MappingReader, complete: Collection[str], reading: AgentFileReading) -> None:
    """Read the phases; those of `complete` take no work."""
    items = listed(top, "phases", MOST_PHASES)
    for item in items:
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
    block = MappingReader(marked, f"phase {name!r}" if name else "a phase", reading.problems)
    block.text("name", most=40, needed=True)
    if name and not PHASE_NAME.fullmatch(name):
        reading.problems.add(
            block.line("name"), f"a phase cannot be called {short(name)}: capitals, digits and underscores"
        )
    title = block.text("title", most=60)
    purpose = " ".join(block.text("purpose", most=300).split())
    entry, leaving = block.text("entry", most=300), block.text("exit", most=300)
    kind, own_hand = _checkpoint(block, name, reading)
    speaker, fresh = _speaker(block, name, reading)
    feedback = _feedback(block, name, reading)
    tools = _tools(block, name, reading)
    ends = name in complete
    # Only code of this program can do the work of a phase, so a team's file has no such key.
    automatic = reading.built_in and block.flag("automatic")
    texts = [_prompt(block, key, name, reading) for key in ("prompt", "prompt_again")]
    if not automatic:
        _work(block, name, reading, ends=ends)
    if not ends and not automatic and marked.entries.get("prompt", _NOTHING).value is None:
        reading.problems.add(marked.line, f"phase {name!r} lacks 'prompt': what the host's model is to do there")
    block.done()
    # Without words of its own for coming back, the first ones are said again: whoever comes may not have heard them.
    return Phase(
        name=name,
        title=title,
        purpose=purpose,
        entry=entry,
        exit=leaving,
        checkpoint=kind,
        own_hand=own_hand,
        tools=tools,
        work_schema="" if ends or automatic else name,
        prompt=texts[0],
        prompt_again=texts[1] or texts[0],
        speaker=speaker,
        fresh=fresh,
        feedback=feedback,
        automatic=automatic,
    )


def _checkpoint(block: MappingReader, name: str, reading: AgentFileReading) -> tuple[CheckpointKind, bool]:
    kind = block.text("checkpoint", most=40) or "none"
    own_hand, question = block.flag("verified"), block.text("question", most=600)
    if kind not in CHECKPOINT_KINDS:
        text = f"phase {name!r} has the unknown checkpoint {short(kind)}{meant(kind, CHECKPOINT_KINDS)}"
        reading.problems.add(block.line("checkpoint"), text)
    # A way out of the phase may ask where the phase does not: whether any does is known when they are read.
    if own_hand and kind not in DECIDING:
        text = f"phase {name!r} is verified, but nobody decides there: make its checkpoint blocking or optional"
        reading.needing.append(Needing(name, DECIDING, block.line("verified"), text, asks=True))
    if question and kind == "none":
        text = f"phase {name!r} has a question that nobody is asked: give it a checkpoint"
        told: tuple[CheckpointKind, ...] = ("informational", *DECIDING)
        reading.needing.append(Needing(name, told, block.line("question"), text))
    if question:
        reading.questions[name] = question
    return cast("CheckpointKind", kind), own_hand


def _speaker(block: MappingReader, name: str, reading: AgentFileReading) -> tuple[str, bool]:
    speaker, fresh = block.text("speaker", most=40), block.flag("fresh")
    if speaker and not SPEAKER_NAME.fullmatch(speaker):
        text = f"a speaker cannot be called {short(speaker)}: lower-case letters, digits and hyphens"
        reading.problems.add(block.line("speaker"), text)
    if fresh and not speaker:
        text = f"phase {name!r} begins a fresh conversation, but nobody speaks there: name the 'speaker'"
        reading.problems.add(block.line("fresh"), text)
    return speaker, fresh


def _feedback(block: MappingReader, name: str, reading: AgentFileReading) -> tuple[FeedbackKind, ...]:
    named = block.words("feedback")
    for kind, line in named:
        if kind not in KINDS:
            text = f"phase {name!r} tells the unknown kind of feedback {short(kind)}{meant(kind, KINDS)}"
            reading.problems.add(line, text)
    return tuple(cast("FeedbackKind", kind) for kind in dict.fromkeys(kind for kind, _ in named))


def _tools(block: MappingReader, name: str, reading: AgentFileReading) -> tuple[str, ...]:
    named = block.words("tools")
    for tool, line in named:
        if tool not in reading.tools:
            text = f"phase {name!r} uses the unknown tool {short(tool)}{meant(tool, reading.tools)}"
            reading.problems.add(line, text)
    return tuple(dict.fromkeys(tool for tool, _ in named))


def _prompt(block: MappingReader, key: str, phase: str, reading: AgentFileReading) -> str:
    """Return the name under which the template is kept; "" if there is none."""
    found = block.take(key)
    if found is None:
        return ""
    line = block.line(key)
    if not isinstance(found.value, str) or not found.value.strip():
        reading.problems.add(line, f"{key!r} of phase {phase!r} must be text or the name of a Markdown file")
        return ""
    template: TemplateText | None = TemplateText(found.value.strip("\n"), reading.file, found.text_line)
    if _PROMPT_FILE.fullmatch(found.value.strip()):
        template = _frombeside(found.value.strip(), line, f"{key!r} of phase {phase!r}", reading)
    if template is None:
        return ""
    if len(template.text) > MOST_PROMPT_CHARS:
        text = (
            f"{key!r} of phase {phase!r} has {len(template.text)} characters, at most {MOST_PROMPT_CHARS} are taken: it is "
            "sent each time somebody goes on from there"
        )
        reading.problems.add(template.line, text, template.file)
    name = phase if key == "prompt" else f"{phase}_again"
    reading.texts[name] = template
    return name


def _frombeside(asked: str, line: int, what: str, reading: AgentFileReading) -> TemplateText | None:
    path, raw = beside(asked, line, what, reading)
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


def _work(block: MappingReader, phase: str, reading: AgentFileReading, *, ends: bool) -> None:
    found = block.take("work")
    line = block.line("work")
    if ends:
        if found is not None:
            reading.problems.add(
                line, f"phase {phase!r} is where the work is complete, and takes none: leave 'work' out"
            )
        return
    if found is None:
        reading.broken_forms.add(phase)
        reading.problems.add(
            block.marked.line, f"phase {phase!r} lacks 'work': a JSON Schema of what is submitted there"
        )
        return
    form = _form(found, line, phase, reading)
    if form is None:
        reading.broken_forms.add(phase)
    else:
        reading.forms[phase] = form


def _form(found: Marked, line: int, phase: str, reading: AgentFileReading) -> SchemaForm | None:
    what, file = f"'work' of phase {phase!r}", ""
    if isinstance(found.value, str):
        if not _SCHEMA_FILE.fullmatch(found.value.strip()):
            reading.problems.add(line, f"{what} must be a JSON Schema, or the name of a .json file with one")
            return None
        file, raw = beside(found.value.strip(), line, what, reading)
        if raw is None:
            return None
        try:
            found = read_marked(raw)
        except UnreadableFile as error:
            reading.problems.add(error.line, error.reason, file)
            return None
    schema = read_schema(found, what, reading.problems, file=file)
    return None if schema is None else _as_form(schema, found, what, file, reading)


def _as_form(
    schema: dict[str, Json], marked: Marked, what: str, file: str, reading: AgentFileReading
) -> SchemaForm | None:
    properties = schema.get("properties", {})
    asks = schema.pop(ASKS, [])
    wrong = []
    if not properties:
        wrong.append(("properties", "describes no fields under 'properties'"))
    if DROP in properties:
        wrong.append((DROP, f"describes {DROP!r}, which every work has for ids of items to remove"))
    if not isinstance(asks, list) or not all(isinstance(name, str) for name in asks):
        wrong.append((ASKS, f"has an {ASKS!r} that is no list of field names"))
    else:
        wrong += [
            (ASKS, f"has {short(name)} in {ASKS!r}, which it does not describe{meant(name, properties)}")
            for name in asks
            if name not in properties
        ]
    form = None if wrong else SchemaForm(schema, frozenset(asks), reading.most_items)
    if form is not None and len(canonical(dict(form.schema))) > MOST_SCHEMA_CHARS:
        size = len(canonical(dict(form.schema)))
        wrong.append(
            ("", f"has {size} characters, at most {MOST_SCHEMA_CHARS} are taken: it is sent to the host each time")
        )
    for key, text in wrong:
        path = ["properties", key] if key == DROP else [key]
        reading.problems.add(marked.line_at(path), f"{what} {text}", file)
    return None if wrong else form
