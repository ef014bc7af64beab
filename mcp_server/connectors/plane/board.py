"""Projects and tasks by the names that people use: what the tools and the evidence of merges speak to."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from datetime import datetime
from typing import Generic, Protocol, TypeVar
from urllib.parse import quote, urlsplit

from anyio import to_thread

from knowledge.errors import NoSuchSource, SourceAway
from knowledge.writing.evidence.sources import Fetched
from mcp_server.app.settings.access import PlaneAccess
from mcp_server.connectors.cache import Keeping
from mcp_server.connectors.errors import ConnectorError, Denied, Missing, NotAllowed, UnknownName
from mcp_server.connectors.plane.client import PlaneClient
from mcp_server.connectors.plane.errors import SERVICE, BadReference, ClosedProject, TooManyProjects
from mcp_server.connectors.plane.model import Comment, Cycle, Label, Module, PlaneMember, PlaneTask, Project, State
from mcp_server.connectors.plane.pagination import Walked, everything
from mcp_server.connectors.plane.wire import SOURCE
from mcp_server.connectors.text.name_match import chosen, folded
from mcp_server.toolsets.plane.queries import GROUPS, Reference, reference_of, states_meant

NAMES_S = 300.0
"""How long names of projects, people, states and labels are taken to be what they were."""
LISTING_S = 30.0
"""How long a list of tasks is good for: the pages of one question come from one listing."""
MOST_COMMENTS = 1_000
AGED_S = 2.0
"""Names that are younger are not asked for again because one of them is unknown."""
MOST_LOOKED_THROUGH = 30
"""Projects in which a task is looked for by its id alone; Plane allows 60 requests a minute."""
ALLOWED = "PLANE_PROJECTS"
API_OF_THE_CLOUD, WEB_OF_THE_CLOUD = "api.plane.so", "app.plane.so"


class NamedThing(Protocol):
    """What has an id and a name."""

    @property
    def id(self) -> str:
        """Plane's id."""
        ...

    @property
    def name(self) -> str:
        """What people call it."""
        ...


N = TypeVar("N", bound=NamedThing)
T = TypeVar("T")


class Board:
    """The projects of one workspace, as far as the settings let them be used.

    Names may be mistyped; one that is not known has the names asked for once more before it is an error.
    """

    def __init__(
        self,
        client: PlaneClient,
        access: PlaneAccess,
        *,
        now: Callable[[], datetime],
        monotonic: Callable[[], float],
    ) -> None:
        self.client, self.access, self.now = client, access, now
        self._web = web_address(access.base_url)
        self._projects: Keeping[tuple[Project, ...]] = Keeping(monotonic, longest_s=NAMES_S)
        self._me: Keeping[PlaneMember] = Keeping(monotonic, longest_s=NAMES_S)
        self._tasks: Keeping[Walked[PlaneTask]] = Keeping(monotonic, longest_s=LISTING_S)
        self._states: _ProjectNames[State] = _ProjectNames(monotonic, self._states_told)
        self._people: _ProjectNames[PlaneMember] = _ProjectNames(monotonic, client.members)
        self._labels: _ProjectNames[Label] = _ProjectNames(monotonic, self._labels_told)
        self._cycles: _ProjectNames[Cycle] = _ProjectNames(monotonic, self._cycles_told)
        self._modules: _ProjectNames[Module] = _ProjectNames(monotonic, self._modules_told)

    async def projects(self) -> tuple[Project, ...]:
        """Return the projects that may be used, by key: allowed, not archived, and the key's owner belongs to them."""
        return tuple(project for project in await self._all() if self._closed(project) is None)

    async def project(self, asked: str) -> Project:
        """Return the project of that key, name or id.

        Raises:
            UnknownName, AmbiguousName: with the projects that may be used.
            NotAllowed: it is outside of PLANE_PROJECTS.
            ClosedProject: it is archived, or the key's owner does not belong to it.
        """
        return await self._project(asked, lambda usable: chosen(SERVICE, "project", asked, usable, _names_of_project))

    async def state(self, project: Project, asked: str) -> State:
        """Return the one state that a name, or the group of just one state, means.

        Raises:
            UnknownName, AmbiguousName: with the states that fit, or all.
        """

        def choose(states: Sequence[State]) -> State:
            meant = (states_meant(asked, states) if _is_group(asked) else None) or None
            among = [state for state in states if meant is None or state.id in meant]
            if len(among) == 1 and meant is not None:
                return among[0]
            return chosen(SERVICE, "state", asked, among, lambda state: _names_with_group(state, meant, asked))

        return await self._states.chosen(project.id, choose)

    async def states_meant(self, project: Project, asked: str) -> frozenset[str]:
        """Return the ids of the states that a name, a group or `open` means.

        Raises:
            UnknownName, AmbiguousName: with the states that fit, or all.
        """

        def choose(states: Sequence[State]) -> frozenset[str]:
            meant = states_meant(asked, states)
            return frozenset({chosen(SERVICE, "state", asked, states, _names_of).id}) if meant is None else meant

        return await self._states.chosen(project.id, choose)

    async def person(self, project: Project, asked: str) -> PlaneMember:
        """Return the member of the project by name, full name, e-mail or id; `me` is the owner of the key.

        Raises:
            UnknownName, AmbiguousName: with the members that fit, or all.
        """
        my_id = (await self.me()).id if folded(asked) == "me" else None

        def choose(people: Sequence[PlaneMember]) -> PlaneMember:
            if my_id is None:
                return chosen(SERVICE, "member", asked, people, _names_of_person)
            for person in people:
                if person.id == my_id:
                    return person
            raise UnknownName(SERVICE, "member", asked, [person.name for person in people])

        return await self._people.chosen(project.id, choose)

    async def label(self, project: Project, asked: str) -> Label:
        """Return the label of that name.

        Raises:
            UnknownName, AmbiguousName: with the labels that fit, or all.
        """
        return await self._labels.chosen(project.id, lambda labels: chosen(SERVICE, "label", asked, labels, _names_of))

    async def cycle(self, project: Project, asked: str) -> Cycle:
        """Return the cycle of that name; `current` is the one that runs now, where none bears that name.

        Raises:
            UnknownName, AmbiguousName: with the cycles that fit, or all.
        """

        def choose(cycles: Sequence[Cycle]) -> Cycle:
            running = [
                cycle for cycle in cycles if cycle.starts and cycle.ends and cycle.starts <= self.now() <= cycle.ends
            ]
            named = any(folded(cycle.name) == folded(asked) for cycle in cycles)
            if folded(asked) == "current" and not named and len(running) == 1:
                return running[0]
            return chosen(SERVICE, "cycle", asked, cycles, _names_of)

        return await self._cycles.chosen(project.id, choose)

    async def module(self, project: Project, asked: str) -> Module:
        """Return the module of that name.

        Raises:
            UnknownName, AmbiguousName: with the modules that fit, or all.
        """
        return await self._modules.chosen(
            project.id, lambda modules: chosen(SERVICE, "module", asked, modules, _names_of)
        )

    async def me(self) -> PlaneMember:
        """Return the owner of the key."""
        return await self._me.get("", self.client.me)

    async def states_of(self, project: Project, having: Collection[str] = ()) -> Mapping[str, State]:
        """Return the states of the project by id; asked for anew if one of the ids is not among those that are known."""
        return await self._states.by_id(project.id, having)

    async def people_of(self, project: Project, having: Collection[str] = ()) -> Mapping[str, PlaneMember]:
        """Return the members of the project by id, likewise."""
        return await self._people.by_id(project.id, having)

    async def labels_of(self, project: Project, having: Collection[str] = ()) -> Mapping[str, Label]:
        """Return the labels of the project by id, likewise."""
        return await self._labels.by_id(project.id, having)

    async def cycles_of(self, project: Project) -> Mapping[str, Cycle]:
        """Return the cycles of the project by id."""
        return await self._cycles.by_id(project.id)

    async def modules_of(self, project: Project) -> Mapping[str, Module]:
        """Return the modules of the project by id."""
        return await self._modules.by_id(project.id)

    async def tasks_of(self, project: Project) -> Walked[PlaneTask]:
        """Return the tasks of the project without their texts, as they were within the last half minute."""

        async def listed() -> Walked[PlaneTask]:
            # In this order a task that is changed or made meanwhile moves none from a later page to an earlier one.
            return await everything(lambda cursor: self.client.tasks(project.id, cursor, order_by="-created_at"))

        return await self._tasks.get(project.id, listed)

    async def tasks_in_cycle(self, project: Project, cycle: Cycle) -> Walked[PlaneTask]:
        """Return the tasks of the cycle, likewise."""

        async def listed() -> Walked[PlaneTask]:
            return await everything(lambda cursor: self.client.cycle_tasks(project.id, cycle.id, cursor))

        return await self._tasks.get(f"{project.id}/{cycle.id}", listed)

    async def tasks_in_module(self, project: Project, module: Module) -> Walked[PlaneTask]:
        """Return the tasks of the module, likewise."""

        async def listed() -> Walked[PlaneTask]:
            return await everything(lambda cursor: self.client.module_tasks(project.id, module.id, cursor))

        return await self._tasks.get(f"{project.id}/{module.id}", listed)

    def may_name(self, key: str) -> bool:
        """Return whether tasks of the project of that key may be spoken of, as far as that is known without asking Plane."""
        if self.access.projects is None:
            return True
        open_ones = {one.key for kept in self._projects.all().values() for one in kept if self._closed(one) is None}
        return folded(key) in {folded(name) for name in (*self.access.projects, *open_ones)}

    def forget(self, project_id: str) -> None:
        """Have the tasks of the project, its cycles and modules listed anew: one was changed."""
        self._tasks.forget_under(project_id)

    async def task(self, asked: str) -> tuple[Project, PlaneTask]:
        """Return a task as it is now, with its text, and its project. `asked` is its key in any case, its id or its address.

        Raises:
            BadReference: it names no task of this workspace.
            Missing: there is none.
            UnknownName, NotAllowed, ClosedProject: as for its project.
        """
        meant = reference_of(asked, hosts=self._hosts, base_path=self._base_path, workspace=self.access.workspace)
        if meant.project_key:
            project = await self._project(meant.project_key, lambda usable: _by_key(meant.project_key, usable))
            return await self._held_to(project, await self.client.task_by_key(f"{project.key}-{meant.number}"))
        if meant.project_id:
            project = await self._project(meant.project_id, lambda usable: _by_key(meant.project_id, usable))
            return project, await self.client.task(project.id, meant.task_id)
        return await self._looked_for(meant)

    async def comments(self, project: Project, task: PlaneTask) -> Walked[Comment]:
        """Return what was said about the task, first to last; of very many the last."""
        walked = await everything(lambda cursor: self.client.comments(project.id, task.id, cursor), most=MOST_COMMENTS)
        return Walked(tuple(sorted(walked.items, key=lambda comment: (comment.at, comment.id))), walked.note)

    async def names_of_people(self, project: Project, having: Collection[str] = ()) -> Mapping[str, str]:
        """Return what the members of the project are called, by id."""
        people = await self.people_of(project, having)
        return {person_id: person.name or person.full_name for person_id, person in people.items()}

    async def evidence(self, locator: str) -> Fetched:
        """Return what others wrote in a task and its comments; its time is that of the last thing that was said.

        When a description was written is not known: Plane dates a task anew with every change, also of its state. So it counts
        as old as the task.

        Raises:
            NoSuchSource: there is no such task, or it may not be read.
            SourceAway: Plane cannot be asked now.
        """
        from mcp_server.connectors.plane.text.html_markdown import markdown_of

        origin = f"plane:{locator}"
        try:
            project, task = await self.task(locator.partition("#")[0])
            said = await self.comments(project, task)
            people = await self.names_of_people(project)
        except (Missing, UnknownName, NotAllowed, ClosedProject, BadReference, TooManyProjects) as error:
            raise NoSuchSource(origin, str(error)) from error
        except ConnectorError as error:
            raise SourceAway(origin, str(error)) from error
        others = [comment for comment in said.items if comment.external_id is None]
        own = task.external_source == SOURCE
        written = [*([] if own else [task.html]), *(comment.html for comment in others)]
        texts = [await to_thread.run_sync(markdown_of, html, people) for html in written]
        return Fetched(
            "\n\n".join(text for text in [*([] if own else [task.name]), *texts] if text),
            max((comment.at for comment in others), default=task.created_at),
            f"{self.key(project, task)} {task.name}",
            self.url(project, task.number),
            source=f"plane:{self.key(project, task)}",
            latest=max([task.updated_at, *(comment.at for comment in others)]),
            own=own and not others,
        )

    def key(self, project: Project, task: PlaneTask) -> str:
        """Return what people call the task, like KB-12."""
        return f"{project.key}-{task.number}"

    def url(self, project: Project, number: int) -> str:
        """Return where a person sees the task.

        Source: packages/utils/src/work-item/base.ts of github.com/makeplane/plane.
        """
        return f"{self._web}/{quote(self.access.workspace)}/browse/{quote(project.key)}-{number}/"

    @property
    def _hosts(self) -> tuple[str, ...]:
        return tuple({urlsplit(address).netloc for address in (self._web, self.access.base_url)})

    @property
    def _base_path(self) -> str:
        return urlsplit(self._web).path

    async def _held_to(self, project: Project, task: PlaneTask) -> tuple[Project, PlaneTask]:
        """Return both, if the task is where its key says; a key may have passed on to another project meanwhile."""
        if task.project_id == project.id:
            return project, task
        self._projects.forget("")
        return await self.project(task.project_id), task

    async def _looked_for(self, meant: Reference) -> tuple[Project, PlaneTask]:
        usable = await self.projects()
        listed = {
            task.project_id
            for walked in self._tasks.all().values()
            for task in walked.items
            if task.id == meant.task_id
        }
        known = [project for project in usable if project.id in listed]
        if not known and len(usable) > MOST_LOOKED_THROUGH:
            raise TooManyProjects(len(usable))
        for project in known or usable:
            try:
                return project, await self.client.task(project.id, meant.task_id)
            except (Missing, Denied):  # a guest may see only some of a project
                continue
        raise Missing(SERVICE, f"task {meant.task_id}", "look for it with plane_query_tasks")

    async def _all(self, *, at_most_s: float | None = None) -> tuple[Project, ...]:
        async def told() -> tuple[Project, ...]:
            return tuple(sorted((await self.client.projects()).items, key=lambda project: project.key))

        return await self._projects.get("", told, at_most_s=at_most_s)

    async def _project(self, asked: str, choose: Callable[[Sequence[Project]], Project]) -> Project:
        """Return what `choose` finds among those that may be used, unless just that one may not be."""
        age_s = self._projects.age_s("")
        try:
            return self._usable(asked, await self._all(), choose)
        except ConnectorError as error:
            if age_s is None or age_s < AGED_S or not isinstance(error, UnknownName | NotAllowed | ClosedProject):
                raise
        return self._usable(asked, await self._all(at_most_s=AGED_S), choose)

    def _usable(
        self, asked: str, projects: Sequence[Project], choose: Callable[[Sequence[Project]], Project]
    ) -> Project:
        wanted = folded(asked)
        named = [project for project in projects if wanted in {folded(name) for name in _names_of_project(project)}]
        open_ones = [project for project in projects if self._closed(project) is None]
        if len(named) == 1 and (closed := self._closed(named[0])) is not None:
            raise closed
        return choose(open_ones)

    def _closed(self, project: Project) -> ConnectorError | None:
        """Return why the project may not be used, None where it may."""
        allowed = self.access.projects
        names = {folded(name) for name in _names_of_project(project)}
        if allowed is not None and not names & {folded(name) for name in allowed}:
            return NotAllowed(SERVICE, f"project {project.key}", ALLOWED)
        if project.archived:
            return ClosedProject(project.key, "is archived", "somebody has to restore it in Plane first")
        if not project.member:
            why = "does not have the owner of PLANE_API_KEY among its members"
            return ClosedProject(project.key, why, "somebody has to add them in Plane first")
        return None

    async def _states_told(self, project_id: str) -> Sequence[State]:
        return (await self.client.states(project_id)).items

    async def _labels_told(self, project_id: str) -> Sequence[Label]:
        return (await self.client.labels(project_id)).items

    async def _cycles_told(self, project_id: str) -> Sequence[Cycle]:
        return (await self.client.cycles(project_id)).items

    async def _modules_told(self, project_id: str) -> Sequence[Module]:
        return (await self.client.modules(project_id)).items


class _ProjectNames(Generic[N]):
    """The things of one kind in each project."""

    def __init__(self, monotonic: Callable[[], float], ask: Callable[[str], Awaitable[Sequence[N]]]) -> None:
        self._kept: Keeping[Sequence[N]] = Keeping(monotonic, longest_s=NAMES_S)
        self._ask = ask

    async def by_id(self, project_id: str, having: Collection[str] = ()) -> Mapping[str, N]:
        """Return them by id; what is not among them may be new, or gone for ever, so it is not asked for at once again."""
        known = {thing.id: thing for thing in await self._told(project_id)}
        if set(having) <= known.keys():
            return known
        return {thing.id: thing for thing in await self._told(project_id, at_most_s=LISTING_S)}

    async def chosen(self, project_id: str, choose: Callable[[Sequence[N]], T]) -> T:
        """Return what `choose` finds; what it does not find among names that are older may be new."""
        age_s = self._kept.age_s(project_id)
        try:
            return choose(await self._told(project_id))
        except UnknownName:
            if age_s is None or age_s < AGED_S:
                raise
        return choose(await self._told(project_id, at_most_s=AGED_S))

    async def _told(self, project_id: str, *, at_most_s: float | None = None) -> Sequence[N]:
        return await self._kept.get(project_id, lambda: self._ask(project_id), at_most_s=at_most_s)


def web_address(base_url: str) -> str:
    """Return where people see what the API at `base_url` serves: in Plane's cloud another host, elsewhere the same."""
    base = base_url.rstrip("/")
    parts = urlsplit(base)
    return f"{parts.scheme}://{WEB_OF_THE_CLOUD}" if parts.netloc.casefold() == API_OF_THE_CLOUD else base


def _by_key(asked: str, usable: Sequence[Project]) -> Project:
    """Return the project of exactly that key or id: in the key of a task nothing is guessed."""
    for project in usable:
        if folded(asked) in (folded(project.key), project.id):
            return project
    raise UnknownName(SERVICE, "project", asked, [project.key for project in usable])


def _is_group(asked: str) -> bool:
    return folded(asked) in (*GROUPS, "canceled")


def _names_with_group(state: State, meant: frozenset[str] | None, asked: str) -> Sequence[str]:
    """Return the names of a state; where its group was asked for and has several, that group too, so that it is ambiguous."""
    return (state.name, state.id) if meant is None else (state.name, state.id, asked)


def _names_of(thing: NamedThing) -> Sequence[str]:
    return thing.name, thing.id


def _names_of_project(project: Project) -> Sequence[str]:
    return project.key, project.name, project.id


def _names_of_person(person: PlaneMember) -> Sequence[str]:
    return person.name, person.full_name, person.email, person.id
