"""`agents [list|show NAME|check [FILE]]`: list agents and skills, and check the team's own."""

from __future__ import annotations

import argparse
from collections.abc import Awaitable, Callable, Mapping, Sequence

import anyio

from agents.catalogue import entries
from agents.spec.catalogue import TeamCatalogue
from agents.spec.problems import SpecProblem
from knowledge.errors import KnowledgeError
from knowledge.pages.vault import Vault
from mcp_server.app.factories.team_files import team_catalogue
from mcp_server.app.settings.settings import Settings
from mcp_server.cli.agents.view import shown
from mcp_server.cli.terminal.console import print_table, stderr_console
from mcp_server.cli.terminal.escape import visible
from mcp_server.cli.terminal.options import add_actions, nonempty
from mcp_server.cli.terminal.output import print_json


class NoSuchFile(KnowledgeError):
    """There is no file of an agent, a skill or plan rules with that name."""


def arguments(parser: argparse.ArgumentParser) -> None:
    """Add this verb's arguments. Without an action the agents are listed."""
    actions = add_actions(parser, ACTIONS, default="list")
    actions["show"].add_argument("name", metavar="NAME", type=nonempty, help="an agent's name")
    actions["check"].add_argument(
        "file", metavar="FILE", type=nonempty, nargs="?", help="one file of _agents/ or _skills/, or a name"
    )


def run(args: argparse.Namespace, settings: Settings) -> int:
    """Run the action; exit code 1 if a check finds a mistake."""
    _, action = ACTIONS[args.action]
    return anyio.run(action, args, settings)


def _catalogue(settings: Settings) -> TeamCatalogue:
    return team_catalogue(Vault.open(settings.kb))


async def _list(_args: argparse.Namespace, settings: Settings) -> int:
    catalogue = _catalogue(settings)
    problems = await catalogue.problems()  # first: it also reads what a list alone does not
    rows = [{"agent": e.name, "title": e.title, "origin": "built in", "summary": e.summary} for e in entries()]
    rows += [
        {"agent": a.name, "title": a.title, "origin": a.origin, "summary": a.summary} for a in await catalogue.team()
    ]
    if settings.json:
        print_json(rows)
    else:
        columns = ("agent", "origin", "summary")
        print_table(columns, [[row[column] for column in columns] for row in rows], wrapped=["summary"])
    broken = [file for file, wrong in (await _by_file(catalogue, problems)).items() if wrong]
    if broken:
        stderr_console().print(f"skipped because of errors: {', '.join(broken)} (knowledge-forge agents check)")
    return 0


async def _by_file(catalogue: TeamCatalogue, problems: Sequence[SpecProblem]) -> Mapping[str, Sequence[SpecProblem]]:
    """Return the problems of each file's agent or skill. A problem in a prompt counts for every agent that uses the prompt."""
    found: dict[str, Sequence[SpecProblem]] = {d.file: d.problems for d in catalogue.definitions}
    found |= await catalogue.skills()
    of_agents = {problem for wrong in found.values() for problem in wrong}
    for problem in problems:
        if problem not in of_agents:  # in a file that can't be read, is one too many, or has plan rules
            found[problem.file] = [*found.get(problem.file, ()), problem]
    return dict(sorted(found.items()))


async def _check(args: argparse.Namespace, settings: Settings) -> int:
    catalogue = _catalogue(settings)
    problems = await catalogue.all_problems()
    by_file = dict(sorted({**await catalogue.rules(), **await _by_file(catalogue, problems)}.items()))
    files = list(by_file)
    if args.file is not None:
        files = [_chosen(args.file, files)]
        problems = by_file[files[0]]
    if settings.json:
        rows = [{"file": p.file, "line": p.line, "problem": p.text} for p in problems]
        print_json({"checked": files, "problems": rows})
    else:
        _print_check(files, problems)
    return 1 if problems else 0


def _chosen(asked: str, files: Sequence[str]) -> str:
    """Return the file that a path or an agent's name refers to.

    Raises:
        NoSuchFile: there is no such file.
    """
    bare = asked.replace("\\", "/").removeprefix("./")
    for file in files:
        name = file.rpartition("/")[2]
        # `file` is a path within the knowledge base; a person may type one that leads to it from elsewhere.
        if bare in (file, name, name.rpartition(".")[0]) or bare.endswith(f"/{file}"):
            return file
    known = f"the files are {', '.join(files)}" if files else "_agents/ and _skills/ have no files"
    raise NoSuchFile(f"no agent or skill file {asked[:200]!r} to check; {known}")


def _print_check(files: Sequence[str], problems: Sequence[SpecProblem]) -> None:
    for problem in problems:
        print(visible(str(problem)))
    if problems:
        return
    nothing = "nothing to check: no agents in _agents/ and no skills in _skills/"
    print(f"{len(files)} checked, no mistakes: {', '.join(files)}" if files else nothing)


async def _show(args: argparse.Namespace, settings: Settings) -> int:
    # These load the SDK and the tools' declarations, 0.5 s, which a list need not wait for.
    from mcp_server.toolsets.journeys.offers.resource_texts import definition, phase_definition
    from mcp_server.toolsets.registry import declared

    agent = await _catalogue(settings).agent(args.name)
    tools = [spec.name for spec in declared()]
    phases = [phase_definition(agent, phase, tools) for phase in agent.graph.phases]
    if settings.json:
        print_json({**definition(agent), "phases": phases})
    else:
        for line in shown(agent, definition(agent)["diagram"], phases):
            print(line)
    return 0


ACTIONS: Mapping[str, tuple[str, Callable[[argparse.Namespace, Settings], Awaitable[int]]]] = {
    "list": ("list every agent and skill, and where it comes from", _list),
    "show": ("show an agent's phases, transitions, prompts and diagram", _show),
    "check": ("check the agents, skills and plan rules of this knowledge base", _check),
}
"""The actions with their help texts."""
