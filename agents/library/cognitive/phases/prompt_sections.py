"""What a cognitive agent is told around the words of its steps, each part with what it yields to others when room is short. Pure."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence

from agents.engine.state import JourneyState
from agents.library.cognitive.model import CLOSING, JOHARI_DISCOVERY, Cognitive
from agents.library.cognitive.phases.last_phases import filled_skeleton
from agents.library.cognitive.phases.material import Material, lines
from agents.library.cognitive.phases.memory_document import digest
from agents.library.cognitive.setting import PhaseSetting
from agents.library.cognitive.sources import Source
from agents.prompts.context import PromptSection
from agents.prompts.prompt import COMMON, cut, placeholders
from agents.spec.description import done

BRIEF_TOKENS, OUTPUT_TOKENS, FOCUS_TOKENS, TERMS_TOKENS = 150, 150, 120, 80
LEAST_NAMED = 120
"""Tokens of each section that has priority, and of what is known by whom, which are told however long the others are."""
NEVER, FIRST, STEPS, JOHARI, LEARNED, REST = 0, 1, 4, 4, 5, 6
"""Priorities: the higher the number, the sooner a part is trimmed. Named sections of priority lie from `FIRST` on."""
ADVICE = "Advice from earlier work: weigh it. It changes neither the task nor what a person decides."
QUADRANT_NAMES = {
    "open": "Open (known to all)",
    "hidden": "Hidden (known to you alone)",
    "blind": "Blind (known to the person alone: their answers)",
    "unknown": "Unknown (to nobody yet)",
}


def sections(cognitive: Cognitive, setting: PhaseSetting, state: JourneyState, body: str) -> Sequence[PromptSection]:
    """Return the parts of a prompt around `body`, the words of the present phase. `state` is told in the agent's own names."""
    material = Material(cognitive, setting, state)
    named, used = _named(material)
    return [
        PromptSection("Task Context", _context(material), NEVER),
        *_brief(material, used),
        PromptSection("Steps", _steps(material), NEVER),
        PromptSection("Role Extension", _focus(material), NEVER),
        PromptSection("Johari Context", _johari(material, used), JOHARI, least=LEAST_NAMED),
        PromptSection("Task Instructions", _instructions(material, body, used), NEVER),
        *_skeleton(material),
        PromptSection("Related Research Terms", _terms(material), NEVER),
        PromptSection("Output Requirements", _output(material), NEVER),
        *named,
        PromptSection("Done so far", _done(material, used), FIRST if state.phase == CLOSING else STEPS),
        PromptSection("Learned before", _learned(material), LEARNED),
        *_remembered(material, used),
    ]


def _named(material: Material) -> tuple[list[PromptSection], Collection[Source]]:
    """Return the sections that the agent names for itself, and the sources they came from."""
    found, used = list[PromptSection](), set[Source]()
    priority = {name: FIRST + number for number, name in enumerate(material.cognitive.priority)}
    for name, sources in material.cognitive.sections.items():
        source, text = material.section(sources)
        if source is not None:
            used.add(source)
            title = name.replace("_", " ").capitalize()
            least = LEAST_NAMED if name in priority else 0
            found.append(PromptSection(title, text, priority.get(name, REST), quoted=True, least=least))
    return found, used


def _context(material: Material) -> str:
    cognitive, setting, phase = material.cognitive, material.setting, material.state.phase
    where = f"skill {setting.skill}, phase {setting.phase}" if setting.skill else "no skill"
    steps = cognitive.steps
    step = (
        f"step {steps.index(phase)} (of {len(steps)}, from 0): {phase}"
        if phase in steps
        else f"after its {len(steps)} steps: {phase}"
    )
    told = [
        f"Task {material.task}; {where}; domain {material.learned.get('domain', '')}",
        f"Agent {cognitive.name} ({cognitive.function}), {step}",
    ]
    advice = cognitive.advice
    example = f", such as {advice.example}" if advice.example else ""
    # Whoever chooses a model does so at the beginning.
    reason = f": {advice.reason}" if phase == JOHARI_DISCOVERY else ""
    return lines([*told, f"Model advised: {advice.model_class}{example}{reason}"])


def _brief(material: Material, used: Collection[Source]) -> list[PromptSection]:
    if Source("brief") in used:
        return []
    return [PromptSection("Brief", cut(material.state.brief, BRIEF_TOKENS), FIRST, quoted=True)]


def _steps(material: Material) -> str:
    """Return all steps, none of which can be skipped."""
    steps, phase = (*material.cognitive.steps, CLOSING), material.state.phase
    at = steps.index(phase) if phase in steps else len(steps)
    done, coming = ", ".join(steps[:at]), ", ".join(steps[at + 1 :])
    parts = [("done", done), ("now", phase), ("to come", coming)]
    return "All are mandatory, in this order. " + "; ".join(f"{what}: {names}" for what, names in parts if names)


def _focus(material: Material) -> str:
    focus = [str(area) for area in material.learned.get("focus", ())]
    return cut(f"Look above all at:\n{lines(focus)}", FOCUS_TOKENS) if focus else ""


def _terms(material: Material) -> str:
    return cut(", ".join(map(str, material.learned.get("terms", ()))), TERMS_TOKENS)


def _johari(material: Material, used: Collection[Source]) -> str:
    untold = [
        (QUADRANT_NAMES[name], lines(found))
        for name, found in material.quadrants().items()
        if Source("johari", name) not in used
    ]
    return "\n".join(f"{name}:\n{found}" for name, found in untold)


def _instructions(material: Material, body: str, used: Collection[Source]) -> str:
    """Return the words of the phase, and what the skill asks of this agent."""
    asked = "" if Source("task") in used or material.state.phase == CLOSING else material.of(Source("task"))
    own = f"In this skill: {cut(asked, OUTPUT_TOKENS)}" if asked else ""
    return "\n\n".join(part for part in (body, own) if part)


def _skeleton(material: Material) -> list[PromptSection]:
    if material.state.phase != CLOSING:
        return []
    return [PromptSection("Skeleton", f"~~~markdown\n{filled_skeleton(material)}\n~~~", NEVER)]


def _output(material: Material) -> str:
    cognitive, setting = material.cognitive, material.setting
    # A document is called by its agent, or by its place in a skill.
    name = setting.phase or cognitive.name
    most = f"at most {cognitive.budget.tokens_out:,} tokens a step"
    closing = (
        f"after the last step a memory document, memory://{material.task}/{name}, closed with **{cognitive.marker}**"
    )
    own = cut(material.filled_in(setting.output), OUTPUT_TOKENS)
    return "\n".join(part for part in (f"{most}; {closing}.", own) if part)


def _done(material: Material, used: Collection[Source]) -> str:
    """Return what came of the agent's steps, where nothing else tells it. Who comes back is told above what is recorded."""
    cognitive, state = material.cognitive, material.state
    if state.visit > 1 or state.backward_trigger is not None:
        return ""
    template = cognitive.own.texts.get(_prompt(cognitive, state.phase), "")
    told = {name for name in placeholders(template) if name not in COMMON}
    told |= {f"{source.name}.{source.part}" for source in used if source.kind == "step"}
    found = [line for line in done(state, phases=cognitive.own_steps) if not _tells(line, told)]
    return lines([line for line in found if not line.startswith(f"{state.phase} ")])


def _prompt(cognitive: Cognitive, phase: str) -> str:
    return next((one.prompt for one in cognitive.own.graph.phases if one.name == phase), "")


def _tells(line: str, fields: Collection[str]) -> bool:
    """Return whether the line is of one of these fields, each `STEP.field`."""
    step, _, rest = line.partition(" ")
    return f"{step}.{rest.partition(':')[0]}" in fields


def _learned(material: Material) -> str:
    learnings = material.learned.get("learnings", ())
    left = material.learned.get("left_out", 0)
    told = [f"{one['text']} ({one['path']}#{one['section']})" for one in learnings]
    found = lines([*told, *([f"({left} more did not fit: `_learnings/` has them)"] if left else [])])
    return f"{ADVICE}\n{found}" if found else ""


def _remembered(material: Material, used: Collection[Source]) -> Iterator[PromptSection]:
    """Yield the memory documents, those of the agents that it takes first before others, without what named sections tell of them."""
    takes, told = material.cognitive.takes, set[str]()
    loaded = material.loaded()[1:] if Source("previous") in used else material.loaded()
    for one in sorted(loaded, key=lambda one: _rank(one.predecessor.agent, takes)):
        agent = one.predecessor.agent
        # Of several documents of one agent the newest, which comes first, is the one that sections are filled from.
        parts = {
            source.part for source in used if (source.kind, source.name) == ("memory", agent) and agent not in told
        }
        told.add(agent)
        if "" not in parts:
            yield PromptSection(
                f"Memory of {one.predecessor.phase or agent} ({agent})", digest(one.document, parts), REST, quoted=True
            )


def _rank(agent: str, takes: Sequence[str]) -> int:
    return takes.index(agent) if agent in takes else len(takes)
