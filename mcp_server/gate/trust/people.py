"""Changes of people, groups, rules and reviewers. They are decided like changes of trust, and no tool makes them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, Literal, TypeGuard, get_args

from knowledge.access.changes import BadDirectoryChange, Changing, DirectoryChange, group_name
from knowledge.state.ports import StateStore
from knowledge.trust.ports import Note
from mcp_server.gate.host_registration import TOKEN_HOLDER, Principal
from mcp_server.gate.trust.tokens import token_principal

PeopleAct = Literal[
    "person.add", "person.remove", "group.add", "group.remove", "rule.set", "rule.remove", "reviewers.set"
]
PEOPLE_ACTS: Final = frozenset(get_args(PeopleAct))
PEOPLE_FIELDS: Mapping[str, tuple[str, ...]] = {
    "person.add": ("name", "principals"),
    "person.remove": ("name", "principals"),
    "group.add": ("name", "people"),
    "group.remove": ("name", "people"),
    "rule.set": ("who", "folder", "right"),
    "rule.remove": ("who", "folder"),
    "reviewers.set": ("folder", "names"),
}
"""The arguments of each act, in order.

Most lists name who is added or removed; `names` are all reviewers of the folder. Removing an empty list of principals or people
removes the whole person or group.
"""


def is_people_act(act: str) -> TypeGuard[PeopleAct]:
    """Return whether the act changes people, groups, rules or reviewers."""
    return act in PEOPLE_ACTS


def change_of(act: PeopleAct, arguments: Mapping[str, Any], changing: Changing) -> DirectoryChange:
    """Return the change of the directory that the act describes."""
    given = [arguments[field] for field in PEOPLE_FIELDS[act]]
    make: Mapping[PeopleAct, Any] = {
        "person.add": changing.person_added,
        "person.remove": changing.person_removed,
        "group.add": changing.group_added,
        "group.remove": changing.group_removed,
        "rule.set": changing.rule_set,
        "rule.remove": changing.rule_removed,
        "reviewers.set": changing.reviewers_set,
    }
    change: DirectoryChange = make[act](*given)
    return change


async def require_change(state: StateStore, act: PeopleAct, arguments: Mapping[str, Any], changing: Changing) -> None:
    """Check that the act is possible and would change something.

    Raises:
        BadDirectoryChange: it is not.
    """
    before = await state.people.directory()
    if change_of(act, arguments, changing)(before) == before:
        raise BadDirectoryChange(f"nothing would change: {_unchanged(act, arguments)}")


async def perform_change(
    state: StateStore, act: PeopleAct, arguments: Mapping[str, Any], changing: Changing
) -> dict[str, Any]:
    """Make the change and return its result. A person who is removed loses their tokens, too."""
    change, before = change_of(act, arguments, changing), await state.people.directory()
    change(before)  # raises, before any token is revoked, if the change is not possible
    revoked = []
    if act == "person.remove" and not arguments["principals"]:
        # With a token they would still have the rights of everybody. Afterwards the directory no longer knows which tokens are theirs.
        for token in await state.trust.tokens():
            revoke = Note(changing.by, "token.revoke", token.id, changing.at)
            theirs = before.person_of(token_principal(token).id) == arguments["name"]
            if theirs and await state.trust.revoke_token(token.id, note=revoke):
                revoked.append(token.id)
    note = Note(changing.by, act, sentence_of_act(act, arguments), changing.at)
    await state.people.change(change, note=note)
    return {"changed": sentence_of_act(act, arguments), **({"revoked": revoked} if revoked else {})}


def token_holder(name: str) -> str:
    """Return the principal of the holder of a token with that name."""
    return Principal(name, TOKEN_HOLDER).id


def sentence_of_act(act: PeopleAct, arguments: Mapping[str, Any]) -> str:
    """Return what the act does, without a subject."""
    match act:
        case "person.add":
            return f"add the person {arguments['name']}, who is {_named(arguments['principals'], 'no principal yet')}"
        case "person.remove" if arguments["principals"]:
            return f"take {_named(arguments['principals'])} from the person {arguments['name']}"
        case "person.remove":
            return f"remove the person {arguments['name']} with their rules and tokens"
        case "group.add" | "group.remove":
            group, people = group_name(str(arguments["name"])), arguments["people"]
            if act == "group.add":
                return f"add {_named(people)} to the group @{group}" if people else f"make the group @{group}"
            return f"take {_named(people)} out of the group @{group}" if people else f"remove the group @{group}"
        case "rule.set":
            return f"let {_who(arguments['who'])} {RIGHT_WORDS[arguments['right']]} {_where(arguments['folder'])}"
        case "rule.remove":
            return f"remove the rule for {_who(arguments['who'])} in {_where(arguments['folder'])}"
        case "reviewers.set" if arguments["names"]:
            return f"let only {_named(arguments['names'])} decide on proposals in {_where(arguments['folder'])}"
    return f"remove the reviewers of {_where(arguments['folder'])}"


RIGHT_WORDS: Mapping[str, str] = {
    "none": "see nothing in",
    "read": "only read",
    "propose": "read and propose in",
    "write": "read and write in",
}


def _named(names: Any, nobody: str = "nobody") -> str:
    return ", ".join(str(one) for one in names) or nobody


def _who(who: str) -> str:
    return "everybody" if who == "*" else who


def _where(folder: str) -> str:
    return f"{folder}/" if folder else "the whole knowledge base"


def _unchanged(act: PeopleAct, arguments: Mapping[str, Any]) -> str:
    what = next(str(arguments[field]) for field in ("name", "who", "folder") if field in arguments)
    return (
        f"{what[:100]} already has that"
        if act.endswith((".add", ".set"))
        else f"there is no such entry for {what[:100]}"
    )
