"""Projects and tasks by the names that people use, as far as the settings allow. The tools and the evidence are built on it."""

from __future__ import annotations

import hashlib
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, replace
from datetime import datetime
from functools import partial
from typing import Final, Generic, Literal, Protocol, TypeVar
from urllib.parse import quote, urlsplit

from knowledge.outbox.ports import Mention
from knowledge.search.answers import Citing
from mcp_server.app.settings.services import PlaneAccess
from mcp_server.connectors.cache import ReplyCache
from mcp_server.connectors.errors import (
    ConnectorError,
    Denied,
    Missing,
    NoAnswer,
    NotAllowed,
    ServiceLimited,
    UnknownName,
)
from mcp_server.connectors.plane.client import PlaneClient
from mcp_server.connectors.plane.model import (
    Comment,
    Cycle,
    Label,
    ListPage,
    Module,
    PlaneMember,
    PlaneTask,
    Project,
    State,
)
from mcp_server.connectors.plane.names import (
    ClosedProject,
    Reference,
    TooManyProjects,
    is_group,
    reference_of,
    states_meant,
    web_address,
)
from mcp_server.connectors.plane.pagination import Identified, Listing, PagesRead, read_all
from mcp_server.connectors.plane.wire import FEWER_A_PAGE, MOST_A_PAGE, SERVICE, TASKS_A_PAGE, TaskGroup
from mcp_server.connectors.ports import connector_of
from mcp_server.connectors.request.transport_errors import TOO_LONG
from mcp_server.connectors.text.name_match import chosen, folded
from mcp_server.ports import HasConnectors

NAMES_S = 300.0
"""How long names of projects, people, states and labels are cached."""
LISTING_S = 30.0
"""How old a list of tasks may be, so that the pages of one answer come from the same list."""
LISTING_MANY_S = 120.0
"""How old the lists of several projects may be. Longer than Plane's minute, so that a second try requests only missing lists."""
KEPT_S = 300.0
"""How old a list may be if Plane accepts no more requests for now: all projects can be read again only after its minute has passed."""
BEGUN_S = 150.0
"""How long the first pages of a list are kept if the next page must wait for Plane's minute."""
ACT_S = 10.0
"""How old the names used in an act may be. Planning the act and carrying it out share a request."""
MOST_COMMENTS = 1_000
MOST_SINGLY = 2
"""The most tasks that are requested one by one; for more, all tasks of their project are listed."""
AGED_S = 2.0
"""If a name is unknown, the cached names are requested again, unless they are younger than this."""
MOST_VERSIONS = 500
"""The most earlier values of tasks that are kept to detect changes."""
INTAKE: Final = "intake"
MOST_LOOKED_THROUGH = 30
"""Projects in which a task is searched by its id alone; Plane allows 60 requests a minute."""
ALLOWED = "PLANE_PROJECTS"


class NamedThing(Identified, Protocol):
    """A thing with an id and a name."""

    @property
    def name(self) -> str:
        """Its name for people."""
        ...


N = TypeVar("N", bound=NamedThing)
T = TypeVar("T")


class ProjectNames(Generic[N]):
    """The things of one kind in each project, cached."""

    def __init__(
        self, kind: str, monotonic: Callable[[], float], fetch: Callable[[str], Awaitable[Listing[N]]]
    ) -> None:
        self._cache: ReplyCache[Listing[N]] = ReplyCache(monotonic, longest_s=NAMES_S)
        self._kind, self._fetch = kind, fetch

    async def by_id(self, project: Project, having: Collection[str] = ()) -> Mapping[str, N]:
        """Return the things by id. If an id of `having` is not among them, it may be new, so they are requested again.

        It may also be deleted for good, so a list younger than LISTING_S is not requested again.
        """
        known = {thing.id: thing for thing in await self._get(project)}
        if set(having) <= known.keys():
            return known
        return {thing.id: thing for thing in await self._get(project, at_most_s=LISTING_S)}

    async def named(self, project: Project, asked: str, *, near: bool = True) -> N:
        """Return the thing of that name; with `near` it may be mistyped or shortened.

        Raises:
            UnknownName, AmbiguousServiceName: with the things that match, or all.
        """
        return await self.chosen(project, lambda things: _by_name(self._kind, asked, things, near=near), near=near)

    async def chosen(self, project: Project, choose: Callable[[Sequence[N]], T], *, near: bool = True) -> T:
        """Return the result of `choose` for the project's things.

        If it raises UnknownName, the name may be new, so the things are requested again and `choose` is called once more. Acts
        pass `near=False`: then the things are at most ACT_S old.
        """
        age_s = self._cache.age_s(project.id)
        try:
            return choose(await self._get(project, at_most_s=None if near else ACT_S))
        except UnknownName:
            if age_s is None or age_s < AGED_S:
                raise
        return choose(await self._get(project, at_most_s=AGED_S))

    async def _get(self, project: Project, *, at_most_s: float | None = None) -> Sequence[N]:
        return (await self._cache.get(project.id, lambda: self._fetch(project.id), at_most_s=at_most_s)).items


@dataclass(frozen=True, slots=True)
class _BegunListing:
    """The first pages of a list of tasks, with the page size; `since` is when the first page was requested."""

    pages: PagesRead[PlaneTask]
    since: float
    per_page: int


class Board:
    """The projects of one workspace. Names may be mistyped or shortened, except in acts, which pass `near=False`."""

    def __init__(
        self,
        client: PlaneClient,
        access: PlaneAccess,
        *,
        now: Callable[[], datetime],
        monotonic: Callable[[], float],
        reading_much: Callable[[], AbstractAsyncContextManager[None]],
    ) -> None:
        self.client, self.access, self.now = client, access, now
        self.reading_much = reading_much
        self._monotonic = monotonic
        self._web = web_address(access.base_url)
        self._projects: ReplyCache[tuple[Project, ...]] = ReplyCache(monotonic, longest_s=NAMES_S)
        self._everyone: ReplyCache[Mapping[str, PlaneMember]] = ReplyCache(monotonic, longest_s=NAMES_S)
        self._tasks_a_page = TASKS_A_PAGE
        self._me: ReplyCache[PlaneMember] = ReplyCache(monotonic, longest_s=NAMES_S)
        self._versions: dict[tuple[str, datetime], Mapping[str, str]] = {}
        self._tasks: ReplyCache[Listing[PlaneTask]] = ReplyCache(monotonic, longest_s=KEPT_S)
        self._begun: dict[str, _BegunListing] = {}
        self.states: ProjectNames[State] = ProjectNames("state", monotonic, client.states)
        self.people: ProjectNames[PlaneMember] = ProjectNames("member", monotonic, client.members)
        self.labels: ProjectNames[Label] = ProjectNames("label", monotonic, client.labels)
        self.cycles: ProjectNames[Cycle] = ProjectNames("cycle", monotonic, client.cycles)
        self.modules: ProjectNames[Module] = ProjectNames("module", monotonic, client.modules)

    async def projects(self) -> tuple[Project, ...]:
        """Return the projects that may be used, by key: allowed, not archived, and the key's owner belongs to them."""
        return tuple(project for project in await self._all_projects() if self._closed(project) is None)

    async def project(self, asked: str, *, near: bool = True) -> Project:
        """Return the project of that key, name or id.

        Raises:
            UnknownName, AmbiguousServiceName: with the projects that may be used.
            NotAllowed: it is outside of PLANE_PROJECTS.
            ClosedProject: it is archived, or the key's owner does not belong to it.
        """
        return await self._project(
            asked, lambda usable: chosen(SERVICE, "project", asked, usable, _names_of_project, near=near), near=near
        )

    async def state(self, project: Project, asked: str, *, near: bool = True) -> State:
        """Return the state of that name, or the only state of the group of that name.

        Raises:
            UnknownName, AmbiguousServiceName: with the states that match, or all.
        """

        def choose(states: Sequence[State]) -> State:
            meant = (states_meant(asked, states) if is_group(asked) else None) or None
            among = [state for state in states if meant is None or state.id in meant]
            if len(among) == 1 and meant is not None:
                return among[0]
            # Each of these states also gets the group's name, so that a group with several states is ambiguous.
            group = () if meant is None else (asked,)
            return chosen(SERVICE, "state", asked, among, lambda state: (state.name, state.id, *group), near=near)

        return await self.states.chosen(project, choose, near=near)

    async def states_meant(self, project: Project, asked: str) -> frozenset[str]:
        """Return the ids of the states that a name, a group or `open` means.

        Raises:
            UnknownName, AmbiguousServiceName: with the states that match, or all.
        """

        def choose(states: Sequence[State]) -> frozenset[str]:
            meant = states_meant(asked, states)
            return frozenset({_by_name("state", asked, states).id}) if meant is None else meant

        return await self.states.chosen(project, choose)

    async def person(self, project: Project, asked: str, *, near: bool = True) -> PlaneMember:
        """Return the member of the project by name, full name, e-mail or id; `me` is the owner of the key.

        Raises:
            UnknownName, AmbiguousServiceName: with the members that match, or all.
        """
        # Requested before `choose`, which may be called twice.
        my_id = (await self.me()).id if folded(asked) == "me" else None

        def choose(people: Sequence[PlaneMember]) -> PlaneMember:
            if my_id is None:
                return chosen(SERVICE, "member", asked, people, names_of_person, near=near)
            for person in people:
                if person.id == my_id:
                    return person
            raise UnknownName(SERVICE, "member", asked, [person.name for person in people])

        return await self.people.chosen(project, choose, near=near)

    async def cycle(self, project: Project, asked: str, *, near: bool = True) -> Cycle:
        """Return the cycle of that name; `current` is the running one, unless a cycle has that name.

        Raises:
            UnknownName, AmbiguousServiceName: with the cycles that match, or all.
        """

        def choose(cycles: Sequence[Cycle]) -> Cycle:
            running = [
                cycle for cycle in cycles if cycle.starts and cycle.ends and cycle.starts <= self.now() <= cycle.ends
            ]
            is_name = any(folded(cycle.name) == folded(asked) for cycle in cycles)
            if folded(asked) == "current" and not is_name and len(running) == 1:
                return running[0]
            return _by_name("cycle", asked, cycles, near=near)

        return await self.cycles.chosen(project, choose, near=near)

    async def me(self) -> PlaneMember:
        """Return the owner of the key."""
        return await self._me.get("", self.client.me)

    async def everyone(self) -> Mapping[str, PlaneMember]:
        """Return the people of the workspace by id: one request instead of one for each project. A guest's key sees none."""

        async def fetch() -> Mapping[str, PlaneMember]:
            try:
                return {person.id: person for person in (await self.client.people()).items}
            except (Denied, Missing):
                return {}

        return await self._everyone.get("", fetch)

    async def names_of_people(self, project: Project, having: Collection[str] = ()) -> Mapping[str, str]:
        """Return the names of the members of the project by id; `having` as in `ProjectNames.by_id`."""
        people = await self.people.by_id(project, having)
        return {person_id: person.name or person.full_name for person_id, person in people.items()}

    async def tasks_of(
        self, project: Project, group: Cycle | Module | Literal["intake"] | None = None, *, at_most_s: float = LISTING_S
    ) -> Listing[PlaneTask]:
        """Return the tasks of the project, of one of its cycles or modules, or in its intake, without their texts.

        The list is at most `at_most_s` old; at most KEPT_S if Plane accepts no more requests for now.
        """
        key = _listing_key(project, group)

        def page(per_page: int, cursor: str | None) -> Awaitable[ListPage[PlaneTask]]:
            if group is None:
                # Pages are counted from the start. In this order a change moves no task, and a new one only moves others to
                # later pages: some may come twice, none is missed.
                return self.client.tasks(project.id, cursor, per_page, order_by="-created_at")
            if group == INTAKE:
                return self.client.intake(project.id, cursor, per_page)
            kind: TaskGroup = "cycle" if isinstance(group, Cycle) else "module"
            return self.client.group_tasks(project.id, kind, group.id, cursor, per_page)

        async def fetch() -> Listing[PlaneTask]:
            begun = self._begun.get(key)
            if begun is None or self._monotonic() - begun.since >= BEGUN_S:
                begun = _BegunListing(PagesRead(), self._monotonic(), self._tasks_a_page)
            # Recorded before the first request: `forget` drops it also while a page is on its way.
            self._begun[key] = begun
            try:
                listing = await read_all(partial(page, begun.per_page), begun=begun.pages)
            except NoAnswer as error:
                if error.why != TOO_LONG or begun.per_page == FEWER_A_PAGE:
                    raise
                # A slow server may answer smaller pages in time. Pages are counted by their size, so reading begins again.
                self._tasks_a_page = FEWER_A_PAGE
                self._begun.pop(key, None)
                listing = await read_all(partial(page, FEWER_A_PAGE))
            self._begun.pop(key, None)
            return listing

        try:
            return await self._tasks.get(key, fetch, at_most_s=at_most_s)
        except ServiceLimited:
            kept, aged_s = self._tasks.kept(key), self._tasks.age_s(key)
            if kept is None:
                raise
            return replace(kept, aged_s=aged_s)

    def listed_s(self, project: Project, group: Literal["intake"] | None = None) -> float | None:
        """Return how old the cached list of the project's tasks is; None if there is none."""
        return self._tasks.age_s(_listing_key(project, group))

    async def tasks_by_id(self, project: Project, ids: Collection[str]) -> Mapping[str, PlaneTask]:
        """Return the project's tasks with these ids, without their texts. Missing, archived and hidden ones are left out.

        However many they are, this usually takes one request, and none if the project was listed half a minute ago.
        """
        if len(ids) > MOST_SINGLY or self.listed_s(project) is not None:
            return {task.id: task for task in (await self.tasks_of(project)).items if task.id in ids}
        found = {}
        for task_id in ids:
            try:
                found[task_id] = await self.client.task(project.id, task_id)
            except (Missing, Denied):  # deleted, archived, or hidden from a guest
                continue
        return found

    async def cycle_with(self, project: Project, task_id: str) -> Cycle | None:
        """Return the cycle that the task is in now, None if it is in none.

        Plane does not return it with the task. So the tasks of one cycle after another are requested, the running one
        first, until the task is found: one request for each cycle that has tasks.
        """
        now = self.now()

        def distance(cycle: Cycle) -> tuple[int, float]:
            if cycle.starts is None or cycle.ends is None:
                return 1, 0.0
            away = max(cycle.starts - now, now - cycle.ends).total_seconds()
            return (0, 0.0) if away <= 0 else (1 if cycle.starts > now else 2, away)

        # Not from the cache, whose counts may be minutes old.
        cycles = (await self.client.cycles(project.id)).items
        for cycle in sorted(cycles, key=distance):
            if cycle.count != 0 and await self.is_in(project, "cycle", cycle.id, task_id):
                return cycle
        return None

    async def modules_with(self, project: Project, task_id: str) -> Sequence[Module]:
        """Return the modules that the task is in now; one request for each that has tasks."""
        modules = (await self.client.modules(project.id)).items
        return [one for one in modules if one.count != 0 and await self.is_in(project, "module", one.id, task_id)]

    async def is_in(self, project: Project, kind: TaskGroup, group_id: str, task_id: str) -> bool:
        """Return whether the task is in that cycle or module now."""
        listing = await read_all(
            lambda cursor: self.client.group_tasks(project.id, kind, group_id, cursor, MOST_A_PAGE),
            until=lambda task: task.id == task_id,
        )
        return any(task.id == task_id for task in listing.items)

    def forget(self, project_id: str) -> None:
        """Drop the cached tasks of the project, its cycles and modules: one was changed."""
        self._tasks.forget(f"{project_id}/")
        for key in [key for key in self._begun if key.startswith(f"{project_id}/")]:
            del self._begun[key]

    async def task(self, asked: str) -> tuple[Project, PlaneTask]:
        """Return a task as it is now, with its text, and its project. `asked` is its key in any case, its id or its address.

        Raises:
            BadReference: it names no task of this workspace.
            Missing: there is no such task.
            UnknownName, NotAllowed, ClosedProject: as for its project.
        """
        meant = self.reference(asked)
        if meant.project_key:
            project = await self._project(meant.project_key, lambda usable: _by_key(meant.project_key, usable))
            task = await self.client.task_by_key(f"{project.key}-{meant.number}")
            if task.project_id == project.id:
                return project, task
            # The key belongs to another project by now, and that one may not be allowed.
            self._projects.forget("")
            return await self.project(task.project_id), task
        if meant.project_id:
            project = await self._project(meant.project_id, lambda usable: _by_key(meant.project_id, usable))
            return project, await self.client.task(project.id, meant.task_id)
        return await self._task_by_id(meant.task_id)

    def reference(self, asked: str) -> Reference:
        """Return how `asked` names a task: by key, id or address.

        Raises:
            BadReference: it names no task of this workspace.
        """
        hosts = {urlsplit(address).netloc for address in (self._web, self.access.base_url)}
        return reference_of(asked, hosts=hosts, base_path=urlsplit(self._web).path, workspace=self.access.workspace)

    async def _task_by_id(self, task_id: str) -> tuple[Project, PlaneTask]:
        usable = await self.projects()
        listed = {task.project_id for listing in self._tasks.values() for task in listing.items if task.id == task_id}
        known = [project for project in usable if project.id in listed]
        if not known and len(usable) > MOST_LOOKED_THROUGH:
            raise TooManyProjects(len(usable))
        for project in known or usable:
            try:
                return project, await self.client.task(project.id, task_id)
            except (Missing, Denied):  # a guest may see only some tasks of a project
                continue
        raise Missing(SERVICE, f"task {task_id}", "look for it with plane_query_tasks")

    def remember(self, task: PlaneTask) -> None:
        """Record the task's values at this moment, for `changed_since`."""
        self._versions.pop((task.id, task.updated_at), None)
        self._versions[task.id, task.updated_at] = _fingerprints(task)
        while len(self._versions) > MOST_VERSIONS:
            del self._versions[next(iter(self._versions))]

    def changed_since(self, task: PlaneTask, seen: datetime, fields: Collection[str]) -> bool:
        """Return whether one of the fields may have changed since `seen`.

        Plane's `updated_at` also moves for a comment or another field. So the fields are compared with their values at `seen`, if
        this process has read the task then.
        """
        then = self._versions.get((task.id, seen))
        if task.updated_at == seen or then is None:
            return task.updated_at != seen
        now = _fingerprints(task)
        return any(now[name] != then[name] for name in fields)

    async def comments(self, project: Project, task: PlaneTask) -> Listing[Comment]:
        """Return the comments on the task, oldest first; if there are very many, the newest of them."""
        listing = await read_all(lambda cursor: self.client.comments(project.id, task.id, cursor), most=MOST_COMMENTS)
        return Listing(tuple(sorted(listing.items, key=lambda comment: (comment.at, comment.id))), listing.note)

    def citation(self, mention: Mention) -> Citing | None:
        """Return the task and its address if tasks of its project may be named, as far as is known without asking Plane."""
        key = mention.origin.partition(":")[2].rpartition("-")[0]
        allowed = self.access.projects
        if allowed is not None:
            known = {one.key for cached in self._projects.values() for one in cached if self._closed(one) is None}
            if folded(key) not in {folded(name) for name in (*allowed, *known)}:
                return None
        return Citing(mention.origin, mention.url)

    def key(self, project: Project, task: PlaneTask) -> str:
        """Return the task's key, like KB-12."""
        return f"{project.key}-{task.number}"

    def url(self, project: Project, number: int) -> str:
        """Return the address where a person sees the task.

        Source: packages/utils/src/work-item/base.ts of github.com/makeplane/plane.
        """
        return f"{self._web}/{quote(self.access.workspace)}/browse/{quote(project.key)}-{number}/"

    async def _all_projects(self, *, at_most_s: float | None = None) -> tuple[Project, ...]:
        async def fetch() -> tuple[Project, ...]:
            return tuple(sorted((await self.client.projects()).items, key=lambda project: project.key))

        return await self._projects.get("", fetch, at_most_s=at_most_s)

    async def _project(
        self, asked: str, choose: Callable[[Sequence[Project]], Project], *, near: bool = True
    ) -> Project:
        """Return the result of `choose` among the usable projects. If `asked` exactly names a closed one, that is the error."""

        def find(projects: Sequence[Project]) -> Project:
            wanted = folded(asked)
            named = [project for project in projects if wanted in map(folded, _names_of_project(project))]
            if len(named) == 1 and (closed := self._closed(named[0])) is not None:
                raise closed
            return choose([project for project in projects if self._closed(project) is None])

        age_s = self._projects.age_s("")
        try:
            return find(await self._all_projects(at_most_s=None if near else ACT_S))
        except (UnknownName, NotAllowed, ClosedProject):
            # It may be new, opened or renamed since the names were cached.
            if age_s is None or age_s < AGED_S:
                raise
        return find(await self._all_projects(at_most_s=AGED_S))

    def _closed(self, project: Project) -> ConnectorError | None:
        """Return why the project may not be used, None if it may."""
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


def _fingerprints(task: PlaneTask) -> Mapping[str, str]:
    """Return a value for each field that an act can set; a description may be long, so its hash."""
    return {
        "name": task.name,
        "state": str(task.state_id),
        "priority": task.priority,
        "assignees": repr(sorted(task.assignee_ids)),
        "labels": repr(sorted(task.label_ids)),
        "start": str(task.starts),
        "due": str(task.due),
        "parent": str(task.parent_id),
        "description": hashlib.sha256((task.html or "").encode()).hexdigest(),
    }


def _listing_key(project: Project, group: Cycle | Module | Literal["intake"] | None) -> str:
    return f"{project.id}/{group if isinstance(group, str) else group.id if group else ''}"


def _by_name(kind: str, asked: str, things: Sequence[N], *, near: bool = True) -> N:
    return chosen(SERVICE, kind, asked, things, lambda thing: (thing.name, thing.id), near=near)


def _by_key(asked: str, usable: Sequence[Project]) -> Project:
    """Return the project with exactly that key or id, because the project in a task's key is never guessed."""
    for project in usable:
        if folded(asked) in (folded(project.key), project.id):
            return project
    raise UnknownName(SERVICE, "project", asked, [project.key for project in usable])


def _names_of_project(project: Project) -> Sequence[str]:
    return project.key, project.name, project.id


def names_of_person(person: PlaneMember) -> Sequence[str]:
    """Return the names by which a person can be meant."""
    return person.name, person.full_name, person.email, person.id


def board_of(services: HasConnectors) -> Board:
    """Return the board of Plane.

    Raises:
        NotConfigured: the settings do not name it.
    """
    return connector_of(services.connectors, SERVICE, Board)
