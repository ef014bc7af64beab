"""Weighing keys of the front matter, which are compared as `key: value` lines are. Pure."""

from __future__ import annotations

import re
from collections.abc import Sequence

from knowledge.merge.claims.comparison import StatementRelation
from knowledge.merge.claims.statements import (
    covers,
    implies,
    read_statement,
)
from knowledge.merge.evidence.context import TO_A_PERSON, Op, Weighing, quoted, shown
from knowledge.merge.evidence.rephrase import folded_lines
from knowledge.merge.model import (
    Unit,
)
from knowledge.merge.splice import Insertion, Replacement
from knowledge.merge.three_way.kinds.front_matter import key_name

GUARDED_KEYS = frozenset({"source", "untrusted", "append", "merge", "router"})
"""Keys of the front matter that say how a page is treated: evidence does not change them."""


def weigh_key(w: Weighing, unit: Unit) -> None:
    """Decide what becomes of a key of the front matter."""
    key = key_name(unit.text)
    text = folded_lines(unit.text)
    if not key:
        _refuse_key(w, unit, "the front matter that came is not made of `key: value` lines")
    elif key.casefold() in GUARDED_KEYS:
        _refuse_key(w, unit, f"`{key}` says how the page is treated, which evidence does not change")
    elif w.keys_coming[key] > 1:
        _refuse_key(w, unit, f"`{key}` came twice")
    elif (there := w.keys_there.get(key)) is not None:
        _meet_key(w, unit, key, there)
    else:
        _new_key(w, unit, key, "\n".join(line for line in text if not line.lstrip().startswith("#")))


def _refuse_key(w: Weighing, unit: Unit, why: str) -> None:
    w.verdict("retain", unit.section, f"{why}; {TO_A_PERSON}")


def _meet_key(w: Weighing, unit: Unit, key: str, there: int) -> None:
    old = w.ground.units[there]
    mine, other = _value(old.text, key), _value(unit.text, key)
    if _listed(other) <= _listed(mine) or implies(*(read_statement(text, w.language) for text in (mine, other))):
        w.unchanged(-1, there)
        return
    if _is_list(old.text) and _is_list(unit.text):
        _add_values(w, unit, there, [value for value in _entries(other) if value.casefold() not in _listed(mine)])
        return
    grows = covers(read_statement(other, w.language), read_statement(mine, w.language))
    if w.same_voice(there):
        if not w.is_later(there):
            w.retain(unit, there, "of an earlier time than")
            return
    elif not grows:
        reason = f"About '{key}' the existing text says '{mine[:60]}', the new one '{other[:60]}'."
        w.flag_units(unit, there, StatementRelation("contradict", "value", key, reason, 1.0))
        return
    elif w.weight.confidence < w.confidence(there).confidence:
        w.retain(unit, there, "is less than")
        return
    lines = folded_lines(old.text)
    above = [line for line in lines if line.lstrip().startswith("#")]
    wanted = [line for line in folded_lines(unit.text) if not line.lstrip().startswith("#")]
    ending = old.text[len(old.text.rstrip("\r\n")) :]
    text = w.ground.with_ends("\n".join([*above, *wanted])) + ending
    begin, end = w.ground.span(there)
    order = w.verdict("update", old.section, w.update_reason(there), there)
    expected = unit._replace(text=text)
    w.ops.append(Op([order], replaced=Replacement(begin, end, text), touched=there, expected=(expected,)))


def _add_values(w: Weighing, unit: Unit, there: int, values: Sequence[str]) -> None:
    """Add values to a list of the front matter, in the way that it is written."""
    old = w.ground.units[there]
    text = _with_values(old.text, values)
    if text is None or there in w.replaced_units:
        _refuse_key(w, unit, f"the list in line {old.line} is written in a way that cannot be added to")
        return
    text = w.ground.with_ends(text)
    begin, end = w.ground.span(there)
    order = w.verdict("integrate", (), f"adds {quoted(', '.join(values))} to a list: {shown(w.weight)}", there)
    expected = (unit._replace(text=text),)
    w.ops.append(
        Op([order], replaced=Replacement(begin, end, text), touched=there, keeps_origin=True, expected=expected)
    )
    w.replaced_units.add(there)


def _new_key(w: Weighing, unit: Unit, key: str, text: str) -> None:
    front = w.page.pieces[0] if w.page.pieces and w.page.pieces[0].kind == "front" else None
    if front is None:
        _refuse_key(w, unit, "the page has no front matter")
        return
    order = w.verdict("integrate", (), f"new key `{key}` of the front matter: {shown(w.weight)}")
    after = front.line + len(folded_lines(front.text)) - 2
    w.ops.append(Op([order], put=Insertion(after, text, block=False), expected=(unit._replace(text=text),)))


def _value(entry: str, key: str) -> str:
    """Return what a key of the front matter says, on one line."""
    lines = [line for line in folded_lines(entry) if not line.lstrip().startswith("#")]
    text = " ".join(line.strip() for line in lines)
    return text.partition(":")[2].strip() if key in text.partition(":")[0] else text


def _is_list(entry: str) -> bool:
    value = _value(entry, key_name(entry))
    return value.startswith(("[", "- "))


def _entries(value: str) -> list[str]:
    """Return the values of a list of the front matter in order, of a plain one the one that it is."""
    if value.startswith("["):
        parts = value.strip("[] ").split(",")
    elif value.startswith("- "):
        parts = re.split(r"(?:^|\s)-\s+", value)
    else:
        parts = [value]
    return [part.strip().strip("\"'") for part in parts if part.strip()]


def _listed(value: str) -> frozenset[str]:
    return frozenset(entry.casefold() for entry in _entries(value))


def _with_values(entry: str, values: Sequence[str]) -> str | None:
    """Return a list of the front matter with these values at its end; None if it is written in no plain way."""
    ending = entry[len(entry.rstrip("\r\n")) :]
    lines = folded_lines(entry)
    last = lines[-1]
    if last.rstrip().endswith("]") and last.count("[") == last.count("]") == 1:
        head = last.rstrip()[:-1].rstrip()
        joined = ", ".join(values)
        lines[-1] = f"{head}{joined}]" if head.endswith(("[", ",")) else f"{head}, {joined}]"
    elif last.lstrip().startswith("- "):
        indent = last[: len(last) - len(last.lstrip())]
        lines += [f"{indent}- {value}" for value in values]
    else:
        return None
    return "\n".join(lines) + ending
