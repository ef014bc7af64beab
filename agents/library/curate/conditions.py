"""The conditions under which a question moves on to a verified act. Each looks at the server's own record and at the pages."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from agents.engine.agent import MET, NOT_MET, ConditionFinding, Look, QuotedStatement, SubmitFacts
from agents.engine.evidence.shown import MAP, READ
from agents.engine.evidence.substance import emptiness, idle_texts, same_words, unsupported
from agents.engine.work.form import ids, items_in
from agents.engine.work.gaps import citations_in, finding, listing, short, unresolved_citations
from agents.library.curate.acts_on_record import WRITTEN, ActsOnRecord, acts_on_record, rejected
from agents.library.curate.record import DELETES, MERGES, TOOLS_OF, UPDATES, CurationRecord, Item

MOST_LINES = 12
"""The most lines that a small change takes out and puts in, together."""

# --- ROUTE ------------------------------------------------------------------------------------------------------------


async def small_change(facts: SubmitFacts, look: Look) -> ConditionFinding:
    """The page to change was read in this journey. If it has been changed already, it was read before that."""
    record = CurationRecord(facts.works)
    if not record.small:
        return NOT_MET
    if await look.place(record.place) != "page":
        return finding(
            [
                f"`place` is {record.place[:200]!r}, and a small change needs one existing page: copy its path from kb_read"
            ]
        )
    calls = await look.calls(of_all_visits=True)
    about = [call.tool for call in calls if call.facts.get("path") == record.place]
    if "kb_read" not in about:
        return finding([f"{record.place[:200]} was not read in this journey: kb_read it with this journey_id"])
    if MERGES in about and MERGES not in about[about.index("kb_read") :]:
        return finding(
            [
                f"{record.place[:200]} was changed before it was read: kb_merge it again with the revision that kb_read gave"
            ]
        )
    return MET


async def known_place(facts: SubmitFacts, look: Look) -> ConditionFinding:
    """The place that is named exists, or the server routes the question to one."""
    if CurationRecord(facts.works).small or not await _is_known(facts, look):
        return NOT_MET
    return finding([*_idle_question(facts), *await _changed_here(look)])


async def unknown_place(facts: SubmitFacts, look: Look) -> ConditionFinding:
    """The place is not known, so it has to be searched for."""
    if CurationRecord(facts.works).small or await _is_known(facts, look):
        return NOT_MET
    return finding([*_idle_question(facts), *await _changed_here(look)])


def _idle_question(facts: SubmitFacts) -> list[str]:
    """Return a sentence if the question asks nothing."""
    why = emptiness(CurationRecord(facts.works).question, name="question", told=facts.told)
    return [f"`question` {why}"] if why else []


async def _is_known(facts: SubmitFacts, look: Look) -> bool:
    record = CurationRecord(facts.works)
    named = record.place and await look.place(record.place)
    return bool(named) or await look.route(record.question) == "navigation"


async def _changed_here(look: Look) -> list[str]:
    """Return a sentence for each page that was changed before the way to it was chosen: its change must be checked."""
    made = {
        str(call.facts.get("path"))
        for call in await look.calls()
        if call.tool == MERGES and call.facts.get("status") in ("done", "partial", "proposed")
    }
    return [
        f"kb_merge changed {path[:200]} in this phase: submit mode `change` for it, with the work of ACT and MERGE"
        for path in sorted(made)
    ]


# --- ORIENT and TARGET: circles 1 and 2 -------------------------------------------------------------------------------


async def oriented(facts: SubmitFacts, look: Look) -> ConditionFinding:
    """The map was read in this visit, or was read earlier and has not changed, and the work names places that exist."""
    candidates = CurationRecord(facts.works).candidates
    missing = [] if candidates else ["there is no candidate yet: name the places on the map that may have it"]
    missing += [
        f"{item['id']}: there is nothing at {item['path'][:200]}; copy the path from kb_map"
        for item in candidates
        if not await look.place(item["path"])
    ]
    if not any(call.tool == MAP for call in await look.calls()) and not await _known_since_before(MAP, look):
        missing.append("the map was not read in this journey, or has changed since: call kb_map with this journey_id")
    return finding([*missing, *idle_texts(candidates, "why", told=facts.told)])


async def _known_since_before(tool: str, look: Look) -> Collection[str]:
    """Return the paths of pages or maps that were read in an earlier phase or visit and are the same now."""
    newest = {str(call.facts.get("path")): call for call in await look.calls(of_all_visits=True) if call.tool == tool}
    return {path for path, call in newest.items() if await look.unchanged(call)}


async def targeted(facts: SubmitFacts, look: Look) -> ConditionFinding:
    """Each page exists, and was read (in this visit, or earlier if it has not changed) or is quoted; at least one was read."""
    record, missing = CurationRecord(facts.works), []
    quoted = {item["citation"]["path"] for item in record.evidence}
    read = {call.facts.get("path") for call in await look.calls() if call.tool == READ}
    read |= {*await _known_since_before(READ, look)} - quoted
    for item in record.targets:
        path = item["path"]
        if await look.place(path) != "page":
            missing.append(f"{item['id']}: {path[:200]} is not a page; name one, with the path that kb_map shows")
        elif path not in read | quoted:
            missing.append(
                f"{item['id']}: {path[:200]} was not read in this journey, or has changed since: kb_read it with this journey_id, or "
                "drop it"
            )
    if not record.targets:
        missing.append("there is no page yet: read the candidates, and name the pages to look into")
    elif not missing and not read & {item["path"] for item in record.targets}:
        missing.append(
            "all of these pages are quoted already: kb_read the one that may have what is missing, and name it"
        )
    return finding([*missing, *idle_texts(record.targets, "why", told=facts.told)])


# --- DEEP_DIVE: circle 3 ----------------------------------------------------------------------------------------------


async def missing_context(facts: SubmitFacts, look: Look) -> ConditionFinding:
    """Something is missing, and the server's own search does not find enough about it either."""
    missing = str(facts.given.get("missing", "")).strip()
    if not missing:
        return finding(["`missing` is empty: say there what is not found"])
    searches = [call.facts.get("scent") for call in await look.calls() if call.tool == "kb_search"]
    # The newest search counts too: the server's words for the gap may differ from the host's.
    lost = await look.scent(missing) != "sufficient" or (searches and searches[-1] != "sufficient")
    # Searches without a single quote that holds have not helped, whatever their scent says.
    nothing = bool(searches) and not await _resolving(facts, look)
    if lost or nothing:
        return finding((), short(missing, 400))
    return finding(
        ["kb_search finds enough for what is missing: search for it with this journey_id, read it, and quote it"]
    )


async def _resolving(facts: SubmitFacts, look: Look) -> bool:
    """Return whether the quote of any evidence holds."""
    evidence = items_in(facts.work, "evidence")
    wrong = await unresolved_citations(facts.work, "evidence", look)
    return len(wrong) < len(evidence)


async def evidence_found(facts: SubmitFacts, look: Look) -> ConditionFinding:
    """There is evidence, every quote holds, and nothing is reported as missing."""
    missing = await unresolved_citations(facts.work, "evidence", look)
    if not items_in(facts.work, "evidence"):
        missing.append("there is no evidence yet: quote the passages that bear on the question")
    if str(facts.given.get("missing", "")).strip():
        missing.append("something is said to be missing: find it, or submit again without `missing`")
    evidence = items_in(facts.work, "evidence")
    missing += idle_texts(evidence, "says", told=facts.told)
    for item in evidence:
        if why := unsupported(item["says"], await _quoted(item, look)):
            missing.append(f"{item['id']}: `says` {why}")
    return finding(missing, statements=[await _statement(item["id"], item["says"], [item], look) for item in evidence])


async def _statement(place: str, text: str, evidence: Sequence[Item], look: Look) -> QuotedStatement:
    """Return a text that rests on the quotes of this evidence and the text around them."""
    cited = [citation for item in evidence for _, citation in citations_in(item)]
    around = [await look.passage(citation) for citation in cited]
    return QuotedStatement(place, text, tuple(one.quote for one in cited), around="\n".join(around))


async def _quoted(item: Item, look: Look) -> list[str]:
    """Return the quotes of an item of evidence, each with the text around it, which its words may come from."""
    return [f"{citation.quote}\n{await look.passage(citation)}" for _, citation in citations_in(item)]


# --- REASON -----------------------------------------------------------------------------------------------------------


async def act_chosen(facts: SubmitFacts, look: Look) -> ConditionFinding:
    """The conclusion rests on evidence, and the chosen act is possible at its place."""
    record, missing = CurationRecord(facts.works), list[str]()
    if not record.conclusion:
        missing.append("there is no conclusion yet: say what follows from the evidence")
    elif why := await _idle_conclusion(record, facts.told, look):
        missing.append(f"`conclusion` {why}")
    there = ids(record.evidence)
    if lost := [id_ for id_ in record.rests_on if id_ not in there]:
        missing.append(f"`rests_on` names ids that no evidence has: {listing(lost)}; there are {listing(there)}")
    if not record.rests_on:
        missing.append(f"the conclusion rests on nothing: name evidence in `rests_on`, of {listing(there)}")
    if record.chosen is None:
        missing.append("no act is chosen: name its kind, the path if it changes the knowledge base, and why")
    # The recorded act is the one that was rejected or failed: it must not simply be repeated.
    elif facts.visit > 1 and not facts.given.get("act"):
        missing.append(
            "the work came back here: submit the act again, changed as the reason demands, or with a `why` that answers the reason"
        )
    else:
        missing += await _out_of_place(record.chosen, look)
    used = [item for item in record.evidence if item["id"] in record.rests_on]
    said = [] if missing else [await _statement("`conclusion`", record.conclusion, used, look)]
    return finding(missing, statements=said)


async def _idle_conclusion(record: CurationRecord, told: str, look: Look) -> str:
    """Return why the conclusion says nothing about its question, or nothing from its evidence; "" if it says something."""
    if why := emptiness(record.conclusion, name="conclusion", told=told):
        return why
    if same_words(record.conclusion, record.question):
        return "only repeats the question: say what follows from the evidence"
    used = [item for item in record.evidence if item["id"] in record.rests_on]
    passages = [text for item in used for text in await _quoted(item, look)]
    # One text for all quotes: a conclusion need not repeat something of each.
    return unsupported(record.conclusion, ["\n".join(passages)]) if passages else ""


async def _out_of_place(act: Item, look: Look) -> list[str]:
    """Return why the act is not possible: no tool for it is listed, or the page at that path does not allow it."""
    kind, path = act["kind"], act.get("path")
    if kind not in UPDATES:
        tools = TOOLS_OF[kind]
        if tools and not {*tools} & {*await look.tools()}:
            return [
                f"this server has no tool for a {kind}: choose answer, and tell the person what they could do themselves"
            ]
        return []
    if path is None:
        return [f"{kind} needs the path of a page" + (", or of a directory" if kind == "merge" else "")]
    if kind == "merge" or await look.place(path) == "page":
        return []
    looked_up = [call.facts.get("path") for call in await look.calls() if call.tool == "kb_history"]
    if kind == "revert":
        if path in looked_up:  # a deleted page can be restored from its history
            return []
        return [f"there is no page {path[:200]} now: look at its history first (kb_history with this journey_id)"]
    return [f"there is no page {path[:200]} to {kind}: copy its path from kb_read"]


# --- ACT --------------------------------------------------------------------------------------------------------------


async def small_change_fails(facts: SubmitFacts, look: Look) -> ConditionFinding:
    """A small change was rejected, or turned out not to be small."""
    record = CurationRecord(facts.works)
    if not record.small:
        return NOT_MET
    if (refused := await human_rejected(facts, look)).met:
        return refused
    lines = sum(
        int(str(call.facts.get("lines") or 0))
        for call in await look.calls()
        if call.tool == MERGES and call.facts.get("path") == record.place and call.facts.get("status") in WRITTEN
    )
    if lines <= MOST_LINES:
        return NOT_MET
    return finding(
        (),
        f"{record.place[:200]} was changed in {lines} lines, a small change has at most {MOST_LINES}: find the evidence for it",
    )


async def human_rejected(facts: SubmitFacts, look: Look) -> ConditionFinding:
    """A person rejected a proposal of this work."""
    refused = await rejected(items_in(facts.given, "acts"), CurationRecord(facts.works).acts, look)
    if not refused:
        return finding(["no proposal named in `acts` was rejected"])
    told = [
        f"{act['tool']} {fate.path[:200]}, proposal {act['proposal']}: {short(fate.note, 300) or 'no reason was given'}"
        for act, fate in refused
    ]
    return finding((), "; ".join(told))


async def knowledge_changed(facts: SubmitFacts, look: Look) -> ConditionFinding:
    """Every act is on record, one of them changed the knowledge base, and the chosen act is among them."""
    record = CurationRecord(facts.works)
    deeds = await acts_on_record(record.acts, look)
    wrong = [*deeds.held, *_not_the_chosen(record, deeds)]
    if deeds.changed:
        return finding(wrong)
    # For other kinds of act `acted` is the way out, and reports what is missing.
    return ConditionFinding(met=False, missing=tuple(wrong)) if record.kind in UPDATES else NOT_MET


async def acted(facts: SubmitFacts, look: Look) -> ConditionFinding:
    """The chosen act is recorded, and it changed nothing in the knowledge base."""
    record = CurationRecord(facts.works)
    deeds = await acts_on_record(record.acts, look)
    if deeds.changed:
        return NOT_MET
    nothing_there = (
        record.kind in UPDATES[1:] and await look.place(str((record.chosen or {}).get("path") or "")) != "page"
    )
    if nothing_there and record.said and not deeds.held:
        return MET  # the page is gone meanwhile, and the answer to the person says so
    wrong = [*deeds.held, *_not_the_chosen(record, deeds)]
    if record.kind in ("answer", "") and not record.said:
        wrong.append("`said` is empty: answer the person, and submit there what you told them")
    elif record.said and (why := emptiness(record.said, name="said", told=facts.told)):
        wrong.append(f"`said` {why}")
    return finding(wrong)


def _not_the_chosen(record: CurationRecord, deeds: ActsOnRecord) -> Sequence[str]:
    """Return a sentence if no recorded act has the chosen kind and place."""
    tools = TOOLS_OF.get(record.kind, ())
    settled = [*deeds.changed, *deeds.done, *deeds.unchanged]
    path = str((record.chosen or {}).get("path") or "") if record.kind in UPDATES else ""
    if not tools or any(act["tool"] in tools and _lies_at(act, path) for act in settled):
        return ()
    if deeds.held and any(act["tool"] in tools for act in record.acts):
        return ()  # the chosen act is named, and `held` says what it lacks
    at = f" at {path[:200]}" if path else ""
    return (
        (
            f"the chosen act is {record.kind}{at}, but none in `acts` carries it out: use {' or '.join(tools)} with this journey_id, "
            "and name it in `acts`"
        ),
    )


def _lies_at(act: Item, path: str) -> bool:
    """Return whether an act happened at its place: a moved page ends elsewhere, and a merge may choose a page below a folder."""
    there = str(act.get("path") or "")
    if act["tool"] not in (MERGES, DELETES) or path in ("", ".", "/"):
        return True
    return there in (path, f"{path}.md") or (act["tool"] == MERGES and there.startswith(f"{path.rstrip('/')}/"))


# --- MERGE ------------------------------------------------------------------------------------------------------------


async def merged(facts: SubmitFacts, look: Look) -> ConditionFinding:
    """Every changed page is reported as it is now and contains the text that was merged into it."""
    record, missing = CurationRecord(facts.works), list[str]()
    for path in record.changed:
        page = record.verified.get(path)
        if page is None:
            missing.append(f"{path[:200]} was changed and is not in `pages`: read it and submit its present revision")
        else:
            missing += await _not_as_told(record, page, look)
    return finding(missing)


async def _not_as_told(record: CurationRecord, page: Item, look: Look) -> list[str]:
    """Return a sentence for each point in which the page differs from the work."""
    id_, path, revision, says = page["id"], page["path"], page["revision"], page.get("says")
    if not await look.place(path):
        if not record.may_be_gone(path):
            return [f"{id_}: there is no page {path[:200]} any more: kb_history says why; tell the person"]
        return [f"{id_}: {path[:200]} is gone: its revision is ''"] if revision else []
    if record.changed[path][-1] == DELETES:
        return [
            f"{id_}: there is a page {path[:200]} again, though it was deleted: kb_history says why; tell the person"
        ]
    missing = []
    if revision != await look.revision(path):
        missing.append(f"{id_}: that is not the present revision of {path[:200]}: kb_read it and submit what it says")
    if MERGES in record.changed[path]:
        if says is None or says["path"] != path:
            missing.append(f"{id_}: quote in `says` what {path[:200]} says now, from that page")
        else:
            missing += await unresolved_citations({"pages": [page]}, "pages", look)
    return missing
