"""Weighing keys of the front matter, which are compared as `key: value` lines are. Pure."""

from __future__ import annotations

import re
from collections.abc import Sequence

from knowledge.merge.claims.comparison import StatementRelation
from knowledge.merge.claims.statements import StatementReading, covers, implies, read_statement
from knowledge.merge.evidence.place.list_form import folded_lines
from knowledge.merge.evidence.weighing_state import TO_A_PERSON, Dispute, PageChange, Weighing, quoted
from knowledge.merge.model import Unit
from knowledge.merge.splice import Insertion
from knowledge.merge.three_way.kinds.front_matter import key_name

GUARDED_KEYS = frozenset({"source", "untrusted", "append", "merge", "router"})
"""Keys of the front matter that only a person may set: with them, a chat message could mark itself as an official source."""


def weigh_key(w: Weighing, unit: Unit) -> None:
    """Decide on a key of the front matter."""
    key = key_name(unit.text)
    if not key:
        _refuse(w, unit, "the front matter you sent is not made of `key: value` lines")
    elif key.casefold() in GUARDED_KEYS:
        _refuse(w, unit, f"`{key}` controls how the page is treated, which evidence can't change")
    elif w.incoming_keys[key] > 1:
        _refuse(w, unit, f"you sent `{key}` twice")
    elif (there := w.front_keys.get(key)) is not None:
        _meet_key(w, unit, key, there)
    elif not w.page.pieces or w.page.pieces[0].kind != "front":
        _refuse(w, unit, "the page has no front matter")
    else:
        front = w.page.pieces[0]
        verdict = w.verdict("integrate", (), f"new key `{key}` of the front matter: {w.weight}")
        text = "\n".join(_without_comments(unit.text))
        after = front.line + len(folded_lines(front.text)) - 2
        expected = (unit._replace(text=text),)
        w.changes.append(PageChange([verdict], Insertion(after, text, block=False), expected=expected))


def _refuse(w: Weighing, unit: Unit, why: str) -> None:
    w.verdict("retain", unit.section, f"{why}; {TO_A_PERSON}")


def _meet_key(w: Weighing, unit: Unit, key: str, there: int) -> None:
    old = w.units[there]
    mine, other = _value(old.text, key), _value(unit.text, key)
    had = frozenset(_entries(mine, folded=True))
    # Tags are the same in capitals; another value may not be.
    is_said = mine.startswith(("[", "- ")) and had.issuperset(_entries(other, folded=True))
    if is_said or _entries(mine) == _entries(other) or implies(_read(w, mine), _read(w, other)):
        w.unchanged(-1, there)
        return
    # A list of tags only grows: a tag missing from the evidence was not withdrawn.
    if all(_value(entry, key_name(entry)).startswith(("[", "- ")) for entry in (old.text, unit.text)):
        _add_values(w, unit, there, [value for value in _entries(other) if value.casefold() not in had])
        return
    decision = w.replacing(unit, there, covers=covers(_read(w, other), _read(w, mine)))
    if decision == "differs":
        reason = f"About '{key}', the existing text says '{mine[:60]}', the new text '{other[:60]}'."
        comparison = StatementRelation("contradict", "value", key, reason, 1.0)
        w.flag(unit, [Dispute(unit.text, there, old.text, comparison)])
    elif decision != "allowed":
        w.retain(unit, there, decision)
    else:
        comments = [line for line in folded_lines(old.text) if line.lstrip().startswith("#")]
        text = "\n".join([*comments, *_without_comments(unit.text)])
        w.replace_text(there, w.splicer.with_ends(text) + _ending(old.text), w.update_verdict(there))


def _add_values(w: Weighing, unit: Unit, there: int, values: Sequence[str]) -> None:
    """Add values to a list of the front matter, in the form in which it is written."""
    old = w.units[there]
    lines = folded_lines(old.text)
    last = lines[-1]
    if last.rstrip().endswith("]") and last.count("[") == last.count("]") == 1:
        head, joined = last.rstrip()[:-1].rstrip(), ", ".join(values)
        lines[-1] = f"{head}{joined}]" if head.endswith(("[", ",")) else f"{head}, {joined}]"
    elif last.lstrip().startswith("- "):
        indent = last[: len(last) - len(last.lstrip())]
        lines += [f"{indent}- {value}" for value in values]
    else:
        _refuse(w, unit, f"the list in line {old.line} is written in a form that can't be extended")
        return
    verdict = w.verdict("integrate", (), f"adds {quoted(', '.join(values))} to a list: {w.weight}", there)
    text = w.splicer.with_ends("\n".join(lines) + _ending(old.text))
    w.replace_text(there, text, verdict, keeps_origin=True)


def _read(w: Weighing, value: str) -> StatementReading:
    return read_statement(value, w.language)


def _ending(text: str) -> str:
    return text[len(text.rstrip("\r\n")) :]


def _without_comments(entry: str) -> list[str]:
    return [line for line in folded_lines(entry) if not line.lstrip().startswith("#")]


def _value(entry: str, key: str) -> str:
    """Return the value of a key of the front matter, on one line."""
    text = " ".join(line.strip() for line in _without_comments(entry))
    return text.partition(":")[2].strip() if key in text.partition(":")[0] else text


def _entries(value: str, *, folded: bool = False) -> list[str]:
    """Return the values of a list of the front matter in order; a plain value is a list of one."""
    if value.startswith("["):
        parts = value.strip("[] ").split(",")
    elif value.startswith("- "):
        parts = re.split(r"(?:^|\s)-\s+", value)
    else:
        parts = [value]
    found = [part.strip().strip("\"'") for part in parts if part.strip()]
    return [part.casefold() for part in found] if folded else found
