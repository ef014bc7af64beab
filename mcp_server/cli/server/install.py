"""`install HOST`: connect a host to this knowledge base, give it its own secret, and ask what it may do."""

from __future__ import annotations

import argparse
import importlib.metadata
import re
import shlex
import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import anyio

from knowledge.errors import KnowledgeError, NoUserFolder
from knowledge.pages.claim_source import PLACE_FORMS, source_kind
from knowledge.state.locations import default_state_dir
from mcp_server.app.knowledge_base import open_state
from mcp_server.app.settings.environment import host_environment
from mcp_server.app.settings.loader import user_file
from mcp_server.app.settings.notes import listed
from mcp_server.app.settings.services import SERVICE_VARIABLES
from mcp_server.app.settings.settings import DATABASE, Settings
from mcp_server.cli.terminal.output import ask_yes_no, print_json, say
from mcp_server.cli.trust.acts import act_once, enrol
from mcp_server.gate.host_registration import Principal, os_user
from mcp_server.hosts.catalogue import HOSTS, Host, HostMachine, host_named
from mcp_server.hosts.entry import (
    MASKED,
    NAME,
    SECRET,
    Launch,
    Served,
    added_flags,
    kb_of,
    key_for,
    masked,
    server_entry,
)
from mcp_server.hosts.files import ConfigurationRefused, backups, check_writable, read, rewrite
from mcp_server.hosts.json_edit import NotAnObject, TwiceTheSameKey, drop, members, put
from mcp_server.hosts.jsonc import BadJson

QUESTION = "May this host edit this knowledge base? Everything it does can be undone."
FORMS_QUESTION = "May forms that {host} shows approve this host's changes, up to level 3? {about}"
VOUCHING = (
    "{service} is configured. Do you trust everyone who can write there? If yes, hosts act on what they read there without "
    "asking you. If no, they ask you first."
)
FIRST_LEVEL, EDIT_LEVEL = 2, 3
SERVICES = (
    *(its.prefix for its in SERVICE_VARIABLES.values()),
    "FORGE_MODEL",
    "FORGE_RUN_",
    "ANTHROPIC_",
    "OPENAI_",
)
"""Variables with these prefixes hold keys to other services, or set their limits: only the person copies them."""
REFUSED, BAD_USAGE = 1, 2
_LONGEST_FOLDER = 40


def arguments(parser: argparse.ArgumentParser) -> None:
    """Add this verb's arguments."""
    parser.add_argument("host", help=", ".join(host.id for host in HOSTS))
    action = parser.add_mutually_exclusive_group()
    action.add_argument(
        "--print", dest="show", action="store_true", help="print the configuration entry instead of writing it"
    )
    action.add_argument("--undo", action="store_true", help="remove our configuration entry")
    parser.add_argument("--project", action="store_true", help="for the project in the current folder only")
    answer = parser.add_mutually_exclusive_group()
    answer.add_argument("--yes-edit", dest="edit", action="store_const", const=True, help="let it edit without asking")
    answer.add_argument(
        "--no-edit", dest="edit", action="store_const", const=False, help="grant nothing, without asking"
    )
    forms = parser.add_mutually_exclusive_group()
    allows = "count forms in this host as your approval up to level 3"
    forms.add_argument("--allow-forms", dest="forms", action="store_const", const=True, help=allows)
    forbids = "don't count forms, without asking"
    forms.add_argument("--no-forms", dest="forms", action="store_const", const=False, help=forbids)
    trusts = f"trust a place without being asked: {', '.join(PLACE_FORMS)}"
    parser.add_argument("--trust-place", dest="places", metavar="PLACE", action="append", help=trusts)


@dataclass(frozen=True, slots=True)
class InstallRequest:
    """The person's request. `edit`, `forms` and `places` are None while the person has not answered that question.

    `default_state_dir` is where the state is if the person named no `state_dir`. The entry names it all the same, because a
    host may have other environment variables than this terminal.
    `not_carried` are variables of this terminal with keys and limits, which the host gets only if the person copies them.
    """

    host: str
    kb: Path
    state_dir: Path | None = None
    default_state_dir: Path | None = None
    show: bool = False
    undo: bool = False
    project: bool = False
    edit: bool | None = None
    forms: bool | None = None
    json: bool = False
    not_carried: tuple[str, ...] = ()
    places: tuple[str, ...] | None = None


@dataclass(frozen=True, slots=True)
class Means:
    """The outside functions that installing needs.

    `enrol` registers a host, with or without forms, and returns its secret; `grant` sets its level. `ask` asks a yes-or-no
    question with a proposed answer, and returns None if there is nobody to ask. `unvouched` returns the configured services
    none of whose places is trusted; `vouch` trusts a place.
    """

    place: HostMachine
    launch: Launch
    enrol: Callable[[str, bool], str]
    grant: Callable[[str, int], None]
    ask: Callable[[str, bool], bool | None]
    unvouched: Callable[[], Sequence[str]] = tuple
    vouch: Callable[[str], None] = lambda _place: None


def run(args: argparse.Namespace, settings: Settings) -> int:
    """Connect the host, print its entry, or undo it; return 0, 1 (the file can't be changed) or 2 (wrong usage)."""
    request = InstallRequest(
        host=args.host,
        kb=settings.kb,
        state_dir=settings.state_dir,
        default_state_dir=None if settings.state_dir else _default_state_dir(settings.kb),
        show=args.show,
        undo=args.undo,
        project=args.project,
        edit=args.edit,
        forms=args.forms,
        json=settings.json,
        not_carried=tuple(name for name in settings.in_environment if name.startswith(SERVICES)),
        places=tuple(args.places) if args.places else None,
    )
    means = Means(
        place=HostMachine(sys.platform, Path.home(), Path.cwd(), host_environment()),
        launch=with_file(with_database(launch_of_this_program(), settings), settings),
        enrol=lambda host, forms: anyio.run(partial(enrol, settings, host, forms=forms)),
        grant=lambda host, level: anyio.run(
            act_once, settings, "trust.grant", {"principal": Principal(os_user(), host).id, "level": level}
        ),
        ask=lambda question, proposed: ask_yes_no(question, stdin_is_tty=sys.stdin.isatty(), proposed=proposed),
        unvouched=lambda: anyio.run(_unvouched, settings),
        vouch=lambda place: anyio.run(act_once, settings, "place.trust", {"place": place}),
    )
    return install(request, means)


def _default_state_dir(kb: Path) -> Path | None:
    try:
        return default_state_dir(kb.resolve())
    except NoUserFolder:
        return None  # registering the host reports it


async def _unvouched(settings: Settings) -> tuple[str, ...]:
    """Return the configured services that hosts read, none of whose places is trusted yet."""
    read = [name for name in settings.services if SERVICE_VARIABLES[name].read]
    if not read:
        return ()
    async with open_state(settings) as state:
        places = [*settings.trusted_places, *(one.place for one in await state.trust.trusted_places())]
    known = {source_kind(place) for place in places}
    return tuple(name for name in read if name not in known)


def launch_of_this_program(executable: str | None = None) -> Launch:
    """Return the command with which a host starts this program, independent of the host's working directory."""
    # Not resolved: in a virtual environment it is a link, and our script lies beside the link.
    interpreter = Path(executable or sys.executable).absolute()
    for script in (interpreter.with_name(NAME), interpreter.with_name(f"{NAME}.exe")):
        if script.is_file():
            return Launch(str(script))
    try:
        importlib.metadata.distribution(NAME)
    except importlib.metadata.PackageNotFoundError:
        # A checkout that was never installed can be imported only from its own folder, and no host starts there.
        return Launch(str(interpreter), _AS_MODULE, {"PYTHONPATH": str(Path(__file__).resolve().parents[3])})
    return Launch(str(interpreter), _AS_MODULE)


_AS_MODULE = ("-P", "-m", "mcp_server")
"""Without -P, Python would first import from the folder in which the host starts it, which is the open project."""


def with_database(launch: Launch, settings: Settings) -> Launch:
    """Return `launch` with the database that holds the state here: another database would not know the host's secret."""
    if settings.database_url is None:
        return launch
    named = {"FORGE_DATABASE_URL": settings.database_url}
    if settings.database_schema is not None:
        named["FORGE_DATABASE_SCHEMA"] = settings.database_schema
    if settings.pages == DATABASE:
        named["FORGE_PAGES"] = DATABASE
    return replace(launch, environ={**(launch.environ or {}), **named})


def with_file(launch: Launch, settings: Settings) -> Launch:
    """Return `launch` with the settings file that is used here, wherever the host looks for the user's own folders.

    A name that JSON cannot hold is left out.
    """
    try:
        str(settings.file).encode()
    except UnicodeEncodeError:
        return launch
    if settings.file is None:
        return launch
    # A host talks over the standard streams, even if the file says HTTP.
    stdio = {} if settings.http is None else {"FORGE_HTTP": "stdio"}
    return replace(launch, environ={**(launch.environ or {}), "FORGE_CONFIG": str(settings.file), **stdio})


def install(request: InstallRequest, means: Means) -> int:
    """Carry out `request` and return the exit code; what was refused, and why, is printed on stderr."""
    host = host_named(request.host)
    if host is None:
        say(f"unknown host {request.host!r}; choose one of {', '.join(known.id for known in HOSTS)}")
        return BAD_USAGE
    file = host.config_file(means.place, project=request.project)
    if file is None:
        say(f"{host.name} has no configuration per project; leave out --project")
        return BAD_USAGE
    if not request.undo and not request.kb.is_dir():
        say(f"there is no folder {request.kb}; name the knowledge base with --kb DIR")
        return BAD_USAGE
    installation = _Installation(request, means, host, file)
    try:
        return installation.undo() if request.undo else installation.show() if request.show else installation.write()
    except (BadJson, NotAnObject, TwiceTheSameKey) as error:
        say(f"{file} was not changed: {error}. Correct it in an editor, then try again.")
    except ConfigurationRefused as error:
        say(str(error))
    return REFUSED


@dataclass(frozen=True, slots=True)
class _Installation:
    request: InstallRequest
    means: Means
    host: Host
    file: Path

    def write(self) -> int:
        """Write the entry."""
        # Registering ends the host's old secret, so everything that can fail is tried first.
        self._with_entry(read(self.file) or "", MASKED)
        check_writable(self.file)
        at_home = self.file.parent.is_dir()
        may_edit = self.request.edit
        if may_edit is None:
            may_edit = bool(self.means.ask(QUESTION, False))  # noqa: FBT003 - a callable has no names for its arguments
        forms, places = self._forms(), self._places()
        secret = self.means.enrol(self.principal_host, forms)
        try:
            done = rewrite(self.file, lambda text: self._with_entry(text, secret), same=self._without_entry)
        except KnowledgeError:
            say(f"{self.principal_host} has a new secret already, and the earlier one no longer works: run this again.")
            raise
        may_edit = may_edit and self._granted()
        self._vouch(places)
        key, _ = self._key(read(self.file) or "")
        self._report(key, done.backup, may_edit=may_edit, forms=forms)
        self._say_what_was_left(key, self._servers(read(self.file) or "").get(key))
        if not at_home:
            say(f"{self.file.parent} did not exist: is {self.host.name} installed for this account?")
        if self.request.project:
            say(f"{self.file} now holds a secret: keep it out of version control.")
        return 0

    def show(self) -> int:
        """Print the entry. Register the host and show its secret only if the question about editing is answered."""
        text = read(self.file) or ""
        key, _ = self._key(text)
        enrolled = self.request.edit is not None
        entry = self._entry(text, key, self.means.enrol(self.principal_host, self._forms()) if enrolled else MASKED)
        if self.request.edit:
            self._granted()
        print_json({self.host.servers: {key: entry if enrolled else masked(entry)}})
        say(f"For {self.file}; nothing was written.")
        if enrolled:
            say(f"{self.principal_host} has a new secret; the earlier one no longer works.")
        else:
            say("To print the entry with its secret, add --no-edit or --yes-edit; that registers the host.")
        self._say_what_was_left(key, entry)
        return 0

    def undo(self) -> int:
        """Remove our entry, and the list of servers if we created it; print what remains."""
        text = read(self.file) or ""
        key, there = self._key(text)
        if not there:
            return self._nothing_to_undo(text)
        prune = not self._had_servers_before()
        # No backup: it would hold a secret that still works, and `install` can restore what this removes.
        rewrite(self.file, lambda now: drop(now, (self.host.servers, key), prune=prune), backup=False)
        if self.request.json:
            print_json({"host": self.host.id, "file": str(self.file), "removed": key})
        else:
            print(f"{self.host.name} no longer starts {key} ({self.file}).")
        say(
            f"Nothing else was revoked: {self.principal_host} stays registered with its level "
            f"(`{self._trust_command('grant', str(FIRST_LEVEL))}` takes back a grant). {self.host.restart}"
        )
        return 0

    @property
    def principal_host(self) -> str:
        """The name under which the host is registered.

        Each project has its own name: with a shared one, each installation would replace the other's secret.
        """
        if not self.request.project:
            return self.host.id
        folder = re.sub(r"[^a-z0-9_-]+", "-", self.means.place.folder.name.lower()).strip("-")
        return f"{self.host.id}.{folder[:_LONGEST_FOLDER] or 'project'}"

    def _forms(self) -> bool:
        """Return whether forms of this host can approve. If nobody can be asked they can't: a host may answer its own forms."""
        if self.request.forms is not None or self.request.edit is not None:
            return bool(self.request.forms)
        question = FORMS_QUESTION.format(host=self.host.name, about=self.host.about_forms)
        return bool(self.means.ask(question, self.host.shows_forms))

    def _granted(self) -> bool:
        """Return whether the host may edit from now on. If the person declines, the host stays connected without that right."""
        try:
            self.means.grant(self.principal_host, EDIT_LEVEL)
        except KnowledgeError as error:
            say(str(error))
            return False
        return True

    def _places(self) -> Sequence[str]:
        """Return the places to trust: those that the person named, or the services that the person agreed to."""
        if self.request.places is not None or self.request.edit is not None:
            return self.request.places or ()
        chosen = []
        for service in self.means.unvouched():
            question = VOUCHING.format(service=service.capitalize())
            if self.means.ask(question, False):  # noqa: FBT003 - as above
                chosen.append(service)
        return chosen

    def _vouch(self, places: Sequence[str]) -> None:
        for place in places:
            try:
                self.means.vouch(place)
                say(f"{place} is now trusted; to undo this: knowledge-forge trust places remove {place}")
            except KnowledgeError as error:  # the host stays connected
                say(str(error))

    def _servers(self, text: str) -> dict[str, object]:
        return members(text, (self.host.servers,))

    def _key(self, text: str) -> tuple[str, bool]:
        return key_for(self._servers(text), self.request.kb.name, same=self._is_this_kb)

    def _is_this_kb(self, folder: str) -> bool:
        here = self.request.kb
        return Path(folder) == here or (Path(folder).is_absolute() and Path(folder).resolve() == here.resolve())

    def _entry(self, text: str, key: str, secret: str) -> dict[str, object]:
        state_dir = self.request.state_dir or self.request.default_state_dir
        served = Served(
            _in_unicode(self.file, self.request.kb), _in_unicode(self.file, state_dir) if state_dir else None
        )
        earlier = self._servers(text).get(key)
        return server_entry(self.means.launch, served, secret, typed=self.host.typed, earlier=earlier)

    def _with_entry(self, text: str, secret: str) -> str:
        key, _ = self._key(text)
        return put(text, (self.host.servers, key), self._entry(text, key, secret))

    def _without_entry(self, text: str) -> frozenset[str]:
        """Return the file's text without our entry: with an empty list of servers, and without the list.

        A backup that equals one of the two is enough.
        """
        path = (self.host.servers, self._key(text)[0])
        return frozenset({drop(text, path), drop(text, path, prune=True)})

    def _had_servers_before(self) -> bool:
        """Return whether the list of servers existed before our entry, as far as the last backup shows."""
        copies = backups(self.file)
        try:
            return bool(copies) and members(read(copies[-1]) or "", ()).get(self.host.servers) is not None
        except KnowledgeError:  # a backup that cannot be read shows nothing, so the list stays
            return True

    def _nothing_to_undo(self, text: str) -> int:
        others = {key: kb for key, entry in self._servers(text).items() if (kb := kb_of(entry))}
        if self.request.json:
            print_json({"host": self.host.id, "file": str(self.file), "removed": None})
        say(f"{self.host.name} has no entry for {self.request.kb} in {self.file}; nothing was changed.")
        for key, kb in others.items():
            say(f"  {key} is for another knowledge base: --undo --kb {kb}")
        return REFUSED if others else 0

    def _say_what_was_left(self, key: str, entry: object) -> None:
        """Say which variables of this terminal the host will not see, and how to give them to it.

        In a project, also say what was kept from an earlier entry: somebody else may have written it.
        """
        environ = entry.get("env") if isinstance(entry, dict) else None
        there = environ if isinstance(environ, dict) else {}
        ours = {*(self.means.launch.environ or {}), SECRET}
        flags = added_flags(entry.get("args")) if isinstance(entry, dict) else []
        kept = [*sorted(set(there) - ours), *(flag for flag in flags if flag.startswith("-"))]
        if kept and self.request.project:
            say(
                f"Kept from the entry that was there: {listed(kept)}. Remove what is not yours from {key} in {self.file}."
            )
        if left := [name for name in self.request.not_carried if name not in there]:
            say(
                f"{self.host.name} does not see {listed(left)} of this terminal, and keys are never copied for you: put them into "
                f"{user_file() or 'forge.toml'} (and run this again), or into `env` of {key} in {self.file}."
            )

    def _trust_command(self, action: str, value: str) -> str:
        """Return the command that changes the host's trust later. Trust is per knowledge base, so it names this one."""
        words = [NAME, "trust", "--kb", str(self.request.kb)]
        if self.request.state_dir:
            words += ["--state-dir", str(self.request.state_dir)]
        words += [action, self.principal_host, value]
        return subprocess.list2cmdline(words) if self.means.place.platform == "win32" else shlex.join(words)

    def _report(self, key: str, backup: Path | None, *, may_edit: bool, forms: bool) -> None:
        if self.request.json:
            answer = {"host": self.host.id, "file": str(self.file), "server": key, "kb": str(self.request.kb)}
            granted_level = EDIT_LEVEL if may_edit else None
            print_json({**answer, "backup": backup and str(backup), "granted": granted_level, "forms": forms})
        else:
            print(f"{self.host.name} now starts {key} for {self.request.kb}")
            print(f"  written to  {self.file}")
            if backup:
                print(f"  backup      {backup}")
            if settings := (self.means.launch.environ or {}).get("FORGE_CONFIG"):
                print(f"  settings    {settings}")
            granted = (
                f"granted (level {EDIT_LEVEL})"
                if may_edit
                else f"nothing granted; later: {self._trust_command('grant', str(EDIT_LEVEL))}"
            )
            print(f"  editing     {granted}")
            counted = f"can approve changes up to level {EDIT_LEVEL}" if forms else "can't approve"
            print(f"  forms       {counted}; to change: {self._trust_command('forms', 'off' if forms else 'on')}")
        say(self.host.restart)


def _in_unicode(file: Path, folder: Path) -> str:
    """Return the folder as text that a JSON file can hold.

    Raises:
        ConfigurationRefused: its name is not Unicode.
    """
    text = str(folder)
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise ConfigurationRefused(file, f"the name of {text!r} is not Unicode, which JSON cannot hold") from error
    return text
