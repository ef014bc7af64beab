"""`doctor`: check configuration, services and index, and say how to fix problems."""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import asdict, dataclass, replace
from datetime import timedelta
from functools import partial
from pathlib import Path

import anyio
import anyio.to_thread

from agents.engine.work.markdown import counted
from knowledge.errors import EngineUnavailable, KnowledgeError, RerankerUnavailable, size_in_words
from knowledge.history.audit.inspection import inspect
from knowledge.index.indexing_service import TTL_S
from knowledge.leases import holds
from knowledge.pages.vault import Vault
from knowledge.search.map_lines import Entries, RememberedLines, wanted_lines
from knowledge.state.ownership import others_could_read, others_could_replace
from mcp_server import VERSION
from mcp_server.app.factories.embedder import STATIC
from mcp_server.app.factories.journey_store import journeys_in
from mcp_server.app.factories.reranker import ChosenReranker
from mcp_server.app.factories.team_files import team_catalogue
from mcp_server.app.freshness.embedder_state import AFTERWARDS, embedder_problem, used_meanwhile
from mcp_server.app.freshness.index_update import stale
from mcp_server.app.knowledge_base import SUMMARIES, KnowledgeBase, models_folder, open_base, utc_now
from mcp_server.app.settings.loader import user_file
from mcp_server.app.settings.settings import Settings
from mcp_server.cli.doctor.former_paths import former_paths
from mcp_server.cli.doctor.git import git_examined
from mcp_server.cli.doctor.index_coverage import coverage, engine_reports
from mcp_server.cli.doctor.model import day_examined, model_examined
from mcp_server.cli.doctor.page_place import shared_folder_examined, where_pages_are
from mcp_server.cli.doctor.page_problems import CheckedPages, PageProblem, look_through
from mcp_server.cli.doctor.repairs import Repair, RepairOutcome, carried_out, repairs_for
from mcp_server.cli.doctor.result import DoctorFinding, bad, note, ok
from mcp_server.cli.doctor.search_use import ranking, use
from mcp_server.cli.doctor.services import services_examined
from mcp_server.cli.doctor.sign_in import http_examined, issuers_examined, site_examined, tokens_examined
from mcp_server.cli.doctor.view import print_findings, repair_lines
from mcp_server.cli.server.state import size_text
from mcp_server.cli.terminal import keyboard
from mcp_server.cli.terminal.console import progress_bars
from mcp_server.cli.terminal.escape import visible
from mcp_server.cli.terminal.options import WronglyAsked
from mcp_server.cli.terminal.output import ask_yes_no, print_json, say
from mcp_server.gate.host_registration import digest
from mcp_server.models.locations import summaries_in
from mcp_server.runs.locations import runs_in
from mcp_server.web.address import address

WATCH_LIMIT = Path("/proc/sys/fs/inotify/max_user_watches")
FEW_WATCHES = 16_384  # Linux before 5.11 allows 8,192 by default
LARGE_STATE, LARGE_FREE = 1_000_000_000, 200_000_000
"""Bytes of state, and of free space in it, above which a person may want to know what uses them."""
# An act takes milliseconds, so an older intent was left by a process that died.
LEFT_BEHIND = timedelta(minutes=1)
MOST_COUNTED = 100
MOST_SHOWN = 20
NEEDS_APPROVAL = 3
UNDER_WAY = timedelta(minutes=2)
"""At this age an act in another service has ended, whether or not it succeeded."""

OnProgress = Callable[[int, int], None]


@dataclass(frozen=True, slots=True)
class Checkup:
    """The findings, in the order in which a person would ask, and the repairs that are possible."""

    findings: Sequence[DoctorFinding]
    repairs: Sequence[Repair] = ()


def arguments(parser: argparse.ArgumentParser) -> None:
    """Add this verb's arguments."""
    parser.add_argument("--verbose", action="store_true", help="name every page, and every service that is not set up")
    parser.add_argument("--fix", action="store_true", help="show what can be fixed, and fix it after you agree")
    parser.add_argument("--yes", action="store_true", help="with --fix: don't ask")


def run(args: argparse.Namespace, settings: Settings) -> int:
    """Print what was found, and with `--fix` mend it; exit code 1 if something must be fixed, 3 if a repair needs approval."""
    if args.yes and not args.fix:
        raise WronglyAsked("--yes belongs to --fix")
    checkup = _checkup(settings, fix=args.fix)
    if not settings.json:
        print_findings(checkup.findings, verbose=args.verbose)
    if args.fix:
        return _fix(args, settings, checkup)
    if settings.json:
        print_json([asdict(finding) for finding in checkup.findings])
    return _code(checkup.findings)


def _code(findings: Sequence[DoctorFinding]) -> int:
    return 1 if any(finding.health == "bad" for finding in findings) else 0


def _checkup(settings: Settings, *, fix: bool) -> Checkup:
    with progress_bars("reading the pages", shown=not settings.json) as (on_progress,):
        return anyio.run(partial(_examined, settings, on_progress, fix=fix))


def _fix(args: argparse.Namespace, settings: Settings, checkup: Checkup) -> int:
    """Show the repairs, ask, carry them out, and check again."""
    if not settings.json:
        for line in repair_lines(checkup.repairs):
            print(line)
    outcomes: Sequence[RepairOutcome] = ()
    if checkup.repairs and (args.yes or (not settings.json and _agrees(len(checkup.repairs)))):
        outcomes = anyio.run(carried_out, settings, checkup.repairs)
        checkup = replace(_checkup(settings, fix=False), repairs=checkup.repairs)
    elif checkup.repairs and not settings.json:
        say("nothing was changed" if keyboard.is_terminal() else "nothing was changed; --yes fixes this without asking")
    if settings.json:
        print_json({"findings": list(map(asdict, checkup.findings)), "repairs": _repair_fields(checkup, outcomes)})
    else:
        for repair, outcome in zip(checkup.repairs, outcomes, strict=False):
            print(f"{outcome.word}: {visible(repair.sentence)} ({visible(outcome.outcome)})")
    if any(outcome.waits for outcome in outcomes):
        return NEEDS_APPROVAL
    if len(outcomes) < len(checkup.repairs) or not all(outcome.done for outcome in outcomes):
        return 1
    return _code(checkup.findings)


def _agrees(count: int) -> bool:
    question = f"fix {'it' if count == 1 else f'all {count}'}?"
    return bool(ask_yes_no(question, stdin_is_tty=keyboard.is_terminal()))


def _repair_fields(checkup: Checkup, outcomes: Sequence[RepairOutcome]) -> list[dict[str, object]]:
    told = [asdict(outcome) for outcome in outcomes] or [{"done": False, "outcome": "", "waits": False}] * len(
        checkup.repairs
    )
    return [
        {"what": repair.what, "path": repair.page.path if repair.page else "", "sentence": repair.sentence, **outcome}
        for repair, outcome in zip(checkup.repairs, told, strict=True)
    ]


async def examine(settings: Settings, on_progress: OnProgress = lambda _done, _total: None) -> list[DoctorFinding]:
    """Return the findings, in the order in which a person would ask."""
    return list((await _examined(settings, on_progress)).findings)


async def _examined(settings: Settings, on_progress: OnProgress, *, fix: bool = False) -> Checkup:
    """Return the findings, and with `fix` what can be mended."""
    python = ".".join(str(part) for part in sys.version_info[:3])
    program = ok("program", f"knowledge-forge {VERSION} on Python {python}")
    findings, repairs = [program, _file(settings), *(note("setting", text) for text in settings.notes)], list[Repair]()
    try:
        vault = Vault.open(settings.kb)
        findings += await where_pages_are(settings)
        former = await former_paths(settings)
        looking = partial(look_through, vault, on_progress, excluded=settings.exclude, former=former)
        pages = await anyio.to_thread.run_sync(looking)
    except KnowledgeError as error:
        return Checkup([*findings, bad("pages", str(error), "name the folder that holds the Markdown with --kb")])
    findings += _pages(vault.root, pages)
    try:
        async with open_base(settings) as base:
            findings += await _opened(base, settings, pages)
            repairs += await repairs_for(base, pages) if fix else []
    except KnowledgeError as error:
        what = "index" if Path(getattr(error, "path", "")).name.startswith("index.") else "state"
        findings.append(bad(what, str(error), "checks that depend on it were skipped"))
    return Checkup([*findings, *_watching()], repairs)


def _file(settings: Settings) -> DoctorFinding:
    """Name the file that the settings come from, or the path where one would be read."""
    if settings.file is not None:
        return ok("settings", f"from {settings.file}, the environment and flags")
    place = user_file()
    found = "from the environment and flags; there is no configuration file"
    return ok("settings", found if place is None else f"{found} ({place})")


def _pages(root: Path, pages: CheckedPages) -> list[DoctorFinding]:
    """Return the findings on the person's own pages. Pages without a summary (`unsummarised`) are no fault, so their finding is ok."""
    if not pages.count and not pages.problems:
        return [bad("pages", f"{root} holds no Markdown", "name another folder with --kb")]
    found = f"{pages.count} in {root}" + (
        f"; {pages.excluded} of them are excluded from this check" if pages.excluded else ""
    )
    odd = len(pages.problems) + pages.more
    findings = [
        note("pages", f"{found}; skipped or unusual: {odd}", pages=pages.problems) if odd else ok("pages", found)
    ]
    if pages.links:
        lost = f"{counted(len(pages.links), 'link')} {'leads' if len(pages.links) == 1 else 'lead'} nowhere"
        mend = "knowledge-forge doctor --fix repairs those that can mean only one page"
        findings.append(note("links", lost, mend if pages.repairs else "", pages=pages.links))
    if pages.unsummarised:
        bare = (
            f"{counted(len(pages.unsummarised), 'page')} {'has' if len(pages.unsummarised) == 1 else 'have'} no summary"
        )
        pages_of = tuple(
            PageProblem(path, "no summary", "add `summary:` to its front matter") for path in pages.unsummarised
        )
        findings.append(
            DoctorFinding("summaries", "ok", f"{bare}, so maps show a sentence of the text", pages=pages_of)
        )
    return findings


async def _opened(base: KnowledgeBase, settings: Settings, pages: CheckedPages) -> list[DoctorFinding]:
    looks: dict[str, Callable[[], Awaitable[DoctorFinding | None]]] = {
        "state": partial(_state, base),
        "size": partial(_size, base),
        "folder": partial(_folder, base.state_dir),
        "sharing": partial(shared_folder_examined, base, settings),
        "record": partial(_record, base),
        "git": partial(git_examined, base, settings),
        "hosts": partial(_hosts, base),
        "enrolment": partial(_enrolment, base, settings.enrolment),
        "http": partial(http_examined, base.state, settings),
        "tokens": partial(tokens_examined, base.state),
        "sign-in": partial(issuers_examined, settings),
        "site": partial(site_examined, settings),
        "proposals": partial(_proposals, base),
        "outbox": partial(_outbox, base),
        "journeys": partial(_journeys, base),
        "runs": partial(_runs, base),
        "day": partial(day_examined, base.state, settings),
        "agents": partial(_agents, base),
        "review": partial(_review, base),
        "passkeys": partial(_passkeys, base),
        "places": partial(_places, base, settings.trusted_places),
        "index": partial(_index, base, pages),
        "coverage": partial(_coverage, base),
        "maps": partial(map_lines, base, settings),
        "indexing": partial(_indexing, base),
        "engines": partial(_engines, base),
        "vectors": partial(_vectors, base),
        "reranker": partial(_reranker, settings),
        "search": partial(_search, base),
        "ranking": partial(ranking, base),
        "use": partial(use, base, settings),
    }
    found = [await _safely(what, look) for what, look in looks.items()]
    services = await services_examined(settings)
    return [*(finding for finding in found if finding is not None), *services, *await model_examined(settings)]


async def _safely(what: str, look: Callable[[], Awaitable[DoctorFinding | None]]) -> DoctorFinding | None:
    try:
        return await look()
    except EngineUnavailable as error:
        return bad(what, f"{error.engine} cannot be used now: {error.problem}", "check that it runs, and its address")
    except KnowledgeError as error:
        return bad(what, str(error))
    except Exception as error:  # noqa: BLE001 - whatever fails is a finding, and the other checks continue
        return bad(what, f"{type(error).__name__}: {error}", "see the message")


async def _state(base: KnowledgeBase) -> DoctorFinding:
    if wrong := await base.state.check():
        found = f"{base.state.place} is damaged: {_few(wrong)}"
        return bad("state", found, "restore it from a backup, or move it away and register the hosts again")
    return ok("state", f"{base.state.place}, no errors found")


async def _size(base: KnowledgeBase) -> DoctorFinding:
    """Say how large the state is and what uses most of it."""
    size, sums = await base.state.size(), Counter[str]()
    for one in await base.state.held():
        sums[one.kind] += one.size_bytes
    largest = ", ".join(f"{kind} {size_in_words(taken)}" for kind, taken in sums.most_common(3) if taken)
    found = size_text(size) + (f"; most of it: {largest}" if largest else "")
    if size.size_bytes > LARGE_STATE or size.free_bytes > LARGE_FREE:
        return note("size", found, "knowledge-forge state shows what uses the space; state compact frees it")
    return ok("size", found)


async def _folder(folder: Path) -> DoctorFinding | None:
    """Say whether other accounts can read or change the state folder, and the command that prevents it."""
    if exposed := others_could_read(folder):
        return bad("folder", f"{exposed.problem}, which holds trust levels and the audit", exposed.mend)
    if exposed := others_could_replace(folder):
        found = f"{exposed.problem}, and so could replace {folder} with another folder"
        return note("folder", found, exposed.mend)
    return None


async def _record(base: KnowledgeBase) -> DoctorFinding:
    """Say whether the audit chain is sound, and whether a killed process left an act unfinished."""
    ledger = base.state.ledger
    inspection = await inspect(ledger)
    if inspection.broken:
        first = inspection.broken[0]
        mend = "run knowledge-forge audit verify to list them all, and compare with a backup of the state"
        return bad("record", f"the audit chain is broken at record {first.seq}: {first.reason}", mend)
    left = [intent for intent in await ledger.intents() if utc_now() - intent.at > LEFT_BEHIND]
    found = f"{counted(inspection.records, 'act')}, the chain is intact"
    if left:
        pages = ", ".join(sorted({change.path for intent in left for change in intent.entry.changes})[:MOST_SHOWN])
        found += f"; a killed process left {len(left)} unfinished: {pages}"
        return note("record", found, "any server completes them")
    return ok("record", found)


def _few(wrong: Sequence[str]) -> str:
    lines = [line for problem in wrong for line in problem.splitlines()]
    return "; ".join(lines[:3]) + (f"; and {len(lines) - 3} more" if len(lines) > 3 else "")


async def _hosts(base: KnowledgeBase) -> DoctorFinding:
    hosts = await base.state.enrolments()
    if not hosts:
        found = "no host is registered: all share one name, and can read and propose"
        return note("hosts", found, "knowledge-forge install HOST")
    found = f"registered: {', '.join(one.host for one in hosts)}"
    if allowed := [one.host for one in hosts if one.forms]:
        return ok("hosts", f"{found}; forms approve up to level 3 in {', '.join(allowed)}")
    mend = (
        "forms can't approve; to allow it for a host that shows its forms to you: knowledge-forge trust forms NAME on"
    )
    return ok("hosts", found, mend)


async def _enrolment(base: KnowledgeBase, secret: str | None) -> DoctorFinding | None:
    """Name the host whose secret is set here, if one is."""
    if secret is None:
        return None
    host = await base.state.host_of(digest(secret))
    if host is None:
        found = "FORGE_ENROLMENT is set, but this knowledge base does not know that secret: servers of this host do not start"
        mend = "knowledge-forge install HOST --kb DIR with this folder; the secret was replaced, or belongs to another folder"
        return bad("enrolment", found, mend)
    return ok("enrolment", f"FORGE_ENROLMENT is the secret of {host}")


async def _proposals(base: KnowledgeBase) -> DoctorFinding:
    """Say how many proposals wait for a person, and which were approved and not carried out."""
    waiting = await base.state.trust.pending()
    approved = await base.state.trust.lines(states=("approved",))
    # Not those that a process is carrying out at this moment: its claim lasts until then.
    left = [p.id for p in approved if p.runs_until is None or p.runs_until < utc_now()]
    if left:
        found = f"approved and not carried out: {_few(left)}; waiting for a person: {waiting}"
        return note("proposals", found, "any server, or `knowledge-forge review`, carries them out")
    if not waiting:
        return ok("proposals", "none is waiting for a person")
    found = f"{waiting} {'waits' if waiting == 1 else 'wait'} for a person"
    return note("proposals", found, "knowledge-forge review, or review --web")


async def _outbox(base: KnowledgeBase) -> DoctorFinding | None:
    """Name the acts in other services that may or may not have happened, if there are any."""
    lately = utc_now() - UNDER_WAY
    lost = [one for one in await base.state.outbox.open(limit=MOST_COUNTED) if one.begun_at < lately]
    if not lost:
        return None
    places = [f"{visible(one.target)} ({one.begun_at:%Y-%m-%d %H:%M} UTC)" for one in lost]
    found = f"it is unknown whether these actions in other services happened: {_few(places)}"
    return note("outbox", found, "check there; a repeated call looks it up first")


async def _journeys(base: KnowledgeBase) -> DoctorFinding:
    """Say how many journeys are active, and how many wait for a person."""
    store = journeys_in(base.state)
    active, waiting = [await store.journeys(status=status, limit=MOST_COUNTED) for status in ("active", "waiting")]
    if waiting:
        found = f"{_counted(waiting, 'waits', 'wait')} for a person, {_counted(active)} active"
        return note("journeys", found, "knowledge-forge journeys list --state waiting")
    return ok("journeys", f"{_counted(active)} active, none is waiting for a person")


async def _runs(base: KnowledgeBase) -> DoctorFinding | None:
    """Say how many runs are running, waiting for a person, or left without a process, if there are any."""
    store = runs_in(base.state)
    asking, suspended, running = [
        await store.runs(state=state, limit=MOST_COUNTED) for state in ("asking", "suspended", "running")
    ]
    adrift = await store.runs(adrift_at=utc_now(), limit=MOST_COUNTED)
    waits = f"{_counted(asking, 'asks', 'ask')} a person, {_counted(suspended, 'waits', 'wait')} for a decision"
    parts = [waits] if asking or suspended else []
    parts += [f"{_counted(running)} running"] if running else []
    parts += [f"{_counted(adrift)} of them without a process that works on them"] if adrift else []
    mends = ["knowledge-forge runs list --state asking, then --state proposed"] if asking or suspended else []
    mends += ["a server with the same model resumes it; or run: knowledge-forge runs resume ID"] if adrift else []
    return DoctorFinding("runs", "note" if mends else "ok", ", ".join(parts), "; ".join(mends)) if parts else None


def _counted(found: Sequence[object], one: str = "", many: str = "") -> str:
    """Return the count, followed by the verb in singular or plural."""
    count = f"{MOST_COUNTED} or more" if len(found) == MOST_COUNTED else str(len(found))
    return f"{count} {one if len(found) == 1 else many}".rstrip()


async def _agents(base: KnowledgeBase) -> DoctorFinding | None:
    """Say whether the team's own agents, skills and plan rules can be used, if there are any."""
    catalogue = team_catalogue(base.vault)
    problems = await catalogue.all_problems()  # first: it also reads what a list alone does not
    team = await catalogue.team()
    if problems:
        found = f"{counted(len(problems), 'mistake')} in the team's agents: {_few([str(one) for one in problems])}"
        return bad("agents", found, "knowledge-forge agents check")
    return ok("agents", f"the team's agents: {', '.join(agent.name for agent in team)}") if team else None


async def _review(base: KnowledgeBase) -> DoctorFinding:
    page = await address(base.state)
    if page is None:
        return ok(
            "review",
            "no process serves the site; knowledge-forge review --web does, and a server once something needs approval",
        )
    return ok("review", f"the site is at {page}; knowledge-forge review --web opens it")


async def _passkeys(base: KnowledgeBase) -> DoctorFinding:
    keys = await base.state.trust.passkeys()
    if not keys:
        found = "none registered: approvals from level 4 can't be proven to be yours"
        return note("passkeys", found, "knowledge-forge review --web, then Passkeys")
    named = ", ".join(visible(key.name) for key in keys)
    return ok("passkeys", f"registered: {named}; approvals from level 4 need one of them")


async def _places(base: KnowledgeBase, by_setting: Sequence[str]) -> DoctorFinding | None:
    """Name the trusted places, if there are any."""
    recorded = [one.place for one in await base.state.trust.trusted_places()]
    named = [f"{visible(place)} (FORGE_TRUSTED_PLACES)" for place in by_setting] + [
        visible(place) for place in recorded
    ]
    if not named:
        return None
    return ok("trusted places", f"{', '.join(named)}: text from there needs no approval")


async def _index(base: KnowledgeBase, pages: CheckedPages) -> DoctorFinding:
    if wrong := await base.index.check():
        found = f"{base.index.path} is damaged: {_few(wrong)}"
        return bad("index", found, "nothing is lost: knowledge-forge index --rebuild")
    if base.index.rebuilt:
        found = f"it was damaged ({base.index.rebuilt}) and is being rebuilt"
        return note("index", found, "a running server fills it; or run: knowledge-forge index")
    progress = await base.index.progress()
    if late := await stale(base, besides=pages.unreadable):
        found = f"{counted(progress.done, 'page')} indexed; stale or missing: {late}"
        return note("index", found, "a running server catches up automatically; or run: knowledge-forge index")
    return ok("index", f"{counted(progress.done, 'page')}, up to date")


async def _coverage(base: KnowledgeBase) -> DoctorFinding:
    found = await coverage(base.index)
    has_all_pages = found.newest is not None and found.documents >= found.total
    # What makes missing vectors is said by `_vectors`.
    mend = "" if has_all_pages else "a running server continues it; or run: knowledge-forge index"
    complete = has_all_pages and found.embedded == found.chunks
    return DoctorFinding("coverage", "ok" if complete else "note", found.text(utc_now()), mend)


async def map_lines(base: KnowledgeBase, settings: Settings) -> DoctorFinding | None:
    """Say how many lines of maps a language model wrote, and how many are still to come, if a model is set for that."""
    if settings.provider is None or SUMMARIES not in settings.provider.helps:
        return None
    summaries = summaries_in(base.state)
    known, lacking = RememberedLines(summaries), 0
    async for one in wanted_lines(base.index, Entries(base.index, known)):
        lacking += not await known([one.key])
    found = f"the model wrote {counted(await summaries.count(), 'line')} of maps"
    more = f"; up to {lacking} more will follow while a server runs" if lacking else ""
    return ok("maps", found + more)


async def _indexing(base: KnowledgeBase) -> DoctorFinding:
    lease = await base.state.lease(base.lease)
    if lease is None or not holds(lease.expires_at, utc_now(), TTL_S):
        mend = "a running server takes this over by itself; without one, run after changes: knowledge-forge index"
        return note("indexing", "no process is watching the files", mend)
    # As `holder_name` writes it. Another version may write it in another way, so parts may be missing.
    number, theirs, *_ = [*lease.holder.split("-"), "", ""]
    if theirs != VERSION:
        found = f"process {number}, which holds the lease, has another version ({theirs or 'unknown'})"
        return note("indexing", found, f"restart the hosts, so that all run {VERSION}")
    return ok("indexing", f"done by process {number}")


async def _engines(base: KnowledgeBase) -> DoctorFinding:
    engines = await base.engines()
    embedder = await engines.embedder((await base.index.space()).identity)
    vector = (await embedder.embed(["knowledge"]))[0]
    reports = await engine_reports(base.index, engines)
    found = "; ".join([*map(str, reports), f"embedder: {embedder.name}, {len(vector)} dimensions"])
    if not vector.any():
        if embedder.name == STATIC.embedder:
            return bad("engines", f"{found}: it recognises no words", "reinstall wordllama")
        mend = "check the model, or choose another one with `knowledge-forge embedder use NAME`"
        return bad("engines", f"{found}: it returns zeros instead of a vector", mend)
    if any(not report.reachable for report in reports):
        return note("engines", found, "searches use what is reachable; the index catches up once it is back")
    return ok("engines", found)


async def _vectors(base: KnowledgeBase) -> DoctorFinding | None:
    """Say which vectors are searched while new ones are being made, and whether those can be made."""
    space, wanted = await base.index.space(), base.embedding.wanted
    progress = await base.index.renewal()
    if progress is None and space.wanted.same_vectors(wanted):
        return None
    if not space.wanted.same_vectors(wanted):
        found = f"the index has vectors of {space.identity.embedder or 'nothing yet'}, but the settings name {wanted.embedder}"
    else:
        done, total = (progress.done, progress.total) if progress else (0, 0)
        found = f"{done} of {total} passages have vectors of {wanted.embedder}"
    problem = await embedder_problem(base, wanted)
    if problem or not space.identity.same_vectors(wanted):
        found += f"; {await used_meanwhile(base)} until then"
    if problem:
        return bad("vectors", f"{found}; {problem.embedder}: {problem.reason}", f"{problem.mend}; {AFTERWARDS}")
    return note("vectors", found, "a running server makes them in the background; or run: knowledge-forge index")


async def _reranker(settings: Settings) -> DoctorFinding | None:
    """Say whether the reranker works, if one is set: searches answer without it."""
    if settings.reranker is None:
        return None
    choice = ChosenReranker(settings, models_folder(settings))
    try:
        reranker = await anyio.to_thread.run_sync(choice.load)
        await reranker.scores("knowledge", ["knowledge"])
    except RerankerUnavailable as error:
        return bad("reranker", f"{error.reranker}: {error.reason}; searches are answered without it", error.mend)
    finally:
        await choice.close()
    return ok("reranker", f"{settings.reranker} answers")


async def _search(base: KnowledgeBase) -> DoctorFinding:
    if not (await base.index.progress()).done:
        return note("search", "no page is indexed yet, so nothing can be found", "knowledge-forge index")
    answer = await base.finder.search("knowledge", limit=1)
    if not answer.hits and answer.note:
        return note("search", f"a test search finds nothing: {answer.note}")
    if not answer.hits:
        return note("search", "a test search finds nothing", "knowledge-forge index")
    return ok("search", "answers")


def _watching() -> list[DoctorFinding]:
    if not WATCH_LIMIT.is_file():
        return []
    limit = int(WATCH_LIMIT.read_text(encoding="ascii"))
    if limit >= FEW_WATCHES:
        return []
    found = f"the system allows {limit} watched folders"
    return [note("watching", found, "raise fs.inotify.max_user_watches for large knowledge bases")]
