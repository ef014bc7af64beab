"""The parts of a cognitive agent's prompt around the text of its step, each with its priority when room is short. Pure."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence

from agents.engine.state import JourneyState
from agents.library.cognitive.model import CLOSING, JOHARI_DISCOVERY, Cognitive
from agents.library.cognitive.phases.material import Material, lines
from agents.library.cognitive.phases.memory_document import digest
from agents.library.cognitive.setting import PhaseSetting
from agents.library.cognitive.sources import Source
from agents.prompts.context import PromptSection
from agents.prompts.prompt import COMMON, INSTRUCTIONS, cut, placeholders
from agents.spec.description import done

BRIEF_TOKENS, OUTPUT_TOKENS, FOCUS_TOKENS, TERMS_TOKENS = 150, 150, 120, 80
LEAST_NAMED = 120
"""Tokens reserved for each section with priority, and for the Johari quadrants, however long the others are."""
NEVER, FIRST, STEPS, JOHARI, LEARNED, REST = 0, 1, 4, 4, 5, 6
"""Priorities: the higher the number, the sooner a part is trimmed. Named sections with priority count from `FIRST`."""
ADVICE = "Advice from earlier work: weigh it. It changes neither the task nor what a person decides."
QUADRANT_NAMES = {
    "open": "Open (known to all)",
    "hidden": "Hidden (known to you alone)",
    "blind": "Blind (known to the person alone: their answers)",
    "unknown": "Unknown (to nobody yet)",
}


def sections(cognitive: Cognitive, setting: PhaseSetting, state: JourneyState, body: str) -> Sequence[PromptSection]:
    """Return the parts of a prompt around `body`, the present phase's own text. `state` has the agent's own names."""
    material = Material(cognitive, setting, state)
    named, used = _named(material)
    focus = [str(area) for area in material.learned.get("focus", ())]
    terms = ", ".join(map(str, material.learned.get("terms", ())))
    brief = PromptSection("Brief", cut(state.brief, BRIEF_TOKENS), FIRST, quoted=True)
    closing = state.phase == CLOSING
    return [
        PromptSection("Task Context", _context(material), NEVER, once=True),
        *([] if Source("brief") in used else [brief]),
        PromptSection("Steps", _steps(material), NEVER, once=True),
        PromptSection(
            "Role Extension", cut(f"Look above all at:\n{lines(focus)}", FOCUS_TOKENS) if focus else "", NEVER
        ),
        PromptSection("Johari Context", _johari(material, used), JOHARI, least=LEAST_NAMED),
        PromptSection(INSTRUCTIONS, _instructions(material, body, used), NEVER),
        PromptSection("Related Research Terms", cut(terms, TERMS_TOKENS), NEVER),
        PromptSection("Output Requirements", _output(material), NEVER),
        *named,
        PromptSection("Done so far", _done(material, used), FIRST if closing else STEPS, once=True),
        PromptSection("Learned before", _learned(material), LEARNED),
        *_remembered(material, used),
    ]


def _named(material: Material) -> tuple[list[PromptSection], Collection[Source]]:
    """Return the sections that the agent defines, and the sources that fill them."""
    found, used = list[PromptSection](), set[Source]()
    priority = {name: FIRST + number for number, name in enumerate(material.cognitive.priority)}
    for name, sources in material.cognitive.sections.items():
        source, text = material.section(sources)
        if source is not None:
            used.add(source)
            title = name.replace("_", " ").capitalize()
            least = LEAST_NAMED if name in priority else 0
            # Its own steps' work is known to the host that did them.
            own = source.kind == "step"
            found.append(PromptSection(title, text, priority.get(name, REST), quoted=True, least=least, once=own))
    return found, used


def _context(material: Material) -> str:
    cognitive, setting, phase = material.cognitive, material.setting, material.state.phase
    where = f"skill {setting.skill}, phase {setting.phase}" if setting.skill else "no skill"
    steps, advice = cognitive.steps, cognitive.advice
    step = f"after its {len(steps)} steps: {phase}"
    if phase in steps:
        step = f"step {steps.index(phase)} (of {len(steps)}, from 0): {phase}"
    example = f", such as {advice.example}" if advice.example else ""
    # A model is chosen at the beginning, so the reason is only given there.
    reason = f": {advice.reason}" if phase == JOHARI_DISCOVERY else ""
    told = [
        f"Task {material.task}; {where}; domain {material.learned.get('domain', '')}",
        f"Agent {cognitive.name} ({cognitive.function}), {step}",
        f"Model advised: {advice.model_class}{example}{reason}",
    ]
    return lines(told)


def _steps(material: Material) -> str:
    steps, phase = (*material.cognitive.steps, CLOSING), material.state.phase
    at = steps.index(phase) if phase in steps else len(steps)
    parts = [("done", ", ".join(steps[:at])), ("now", phase), ("to come", ", ".join(steps[at + 1 :]))]
    return "All are mandatory, in this order. " + "; ".join(f"{what}: {names}" for what, names in parts if names)


def _johari(material: Material, used: Collection[Source]) -> str:
    quadrants = {name: found for name, found in material.quadrants().items() if Source("johari", name) not in used}
    return "\n".join(f"{QUADRANT_NAMES[name]}:\n{lines(found)}" for name, found in quadrants.items())


def _instructions(material: Material, body: str, used: Collection[Source]) -> str:
    """Return the phase's own text, and the skill's instructions to this agent."""
    asked = "" if Source("task") in used or material.state.phase == CLOSING else material.of(Source("task"))
    own = f"In this skill: {cut(asked, OUTPUT_TOKENS)}" if asked else ""
    return "\n\n".join(part for part in (body, own) if part)


def _output(material: Material) -> str:
    cognitive, setting = material.cognitive, material.setting
    # A document is read under the name of its agent, or of its place in a skill.
    document = f"memory://{material.task}/{setting.phase or cognitive.name}"
    limits = (
        f"at most {cognitive.budget.tokens_out:,} tokens a step; with {CLOSING} the server writes the memory document {document}, "
        f"closed with **{cognitive.marker}**."
    )
    own = cut(material.filled_in(setting.output), OUTPUT_TOKENS)
    return "\n".join(part for part in (limits, own) if part)


def _done(material: Material, used: Collection[Source]) -> str:
    """Return the results of the agent's steps that nothing else in the prompt shows.

    When the agent comes back, the recorded work is shown above the phase's own text.
    """
    cognitive, state = material.cognitive, material.state
    if state.visit > 1 or state.backward_trigger is not None:
        return ""
    prompt = next((one.prompt for one in cognitive.own.graph.phases if one.name == state.phase), "")
    fields = {name for name in placeholders(cognitive.own.texts.get(prompt, "")) if name not in COMMON}
    fields |= {f"{source.name}.{source.part}" for source in used if source.kind == "step"}
    found = []
    for line in done(state, phases=cognitive.own_steps):
        step, _, rest = line.partition(" ")
        if step != state.phase and f"{step}.{rest.partition(':')[0]}" not in fields:
            found.append(line)
    return lines(found)


def _learned(material: Material) -> str:
    learnings = material.learned.get("learnings", ())
    told = [f"{one['text']} ({one['path']}#{one['section']})" for one in learnings]
    if left := material.learned.get("left_out", 0):
        told.append(f"({left} more did not fit: `_learnings/` has them)")
    return f"{ADVICE}\n{lines(told)}" if told else ""


def _remembered(material: Material, used: Collection[Source]) -> Iterator[PromptSection]:
    """Yield the memory documents, the agent's preferred ones first, without parts that named sections show."""
    takes, told = material.cognitive.takes, set[str]()
    # `previous` showed the newest document already.
    loaded = material.loaded()[1:] if Source("previous") in used else material.loaded()
    rank = {agent: number for number, agent in enumerate(takes)}
    for one in sorted(loaded, key=lambda one: rank.get(one.predecessor.agent, len(takes))):
        agent = one.predecessor.agent
        # Named sections are filled from the newest document of an agent, which comes first.
        parts = {s.part for s in used if (s.kind, s.name) == ("memory", agent) and agent not in told}
        told.add(agent)
        if "" not in parts:
            title = f"Memory of {one.predecessor.phase or agent} ({agent})"
            yield PromptSection(title, digest(one.document, parts), REST, quoted=True)
