"""British and American spellings of English words, which are one term: `colour` finds `color`. Pure.

Words whose spellings differ within a part that their stem keeps and that few words share (`grey`, `mould`) are not among them.
"""

from __future__ import annotations

import re

# `our` at the end of a root: `behaviour`, `discoloured`, `neighbourhood`.
_WITH_OUR = re.compile(
    "^((?:dis|mis|multi|re|un)?(?:arm|behavi|cand|clam|col|demean|endeav|fav|flav|glam|harb|hon|hum|lab|neighb|od|parl|rig|rum|"
    "savi?|splend|tum|val|vap|vig)o)u?r"
)
# `ise`, except in words that Americans write with an `s`, too.
_WITH_ISE = re.compile(
    "^(?!(?:adv|advert|appr|chast|circumc|compr|comprom|conc|desp|dev|enterpr|exc|exerc|expert|franch|improv|inc|merchand|"
    "parad|pract|(?:im)?prec|prem|prom|rev|superv|surm|surpr|telev|treat)is)"
    "((?:memo|[a-z]+[bcdfghj-np-tvxz])i)s(?=(?:e|ed|er|ers|es|able|ation|ational|ations|ing)$)"
)
_WITH_YSE = re.compile("((?:anal|catal|hydrol|paral)y)s(?=(?:e|ed|er|ers|es|ing)$)")
# Not by its stem, which is that of `programmer`.
_PROGRAMMES = frozenset({"programme", "programmes"})
_STEMS = {
    "analogu": "analog", "caliber": "calibr", "catalogu": "catalog", "center": "centr", "defenc": "defens",
    "dialogu": "dialog", "fiber": "fibr", "kilomet": "kilometr", "licenc": "licens", "liter": "litr", "meter": "metr",
    "offenc": "offens", "practis": "practic", "pretenc": "pretens", "theater": "theatr",
}  # fmt: skip


def american(word: str) -> str:
    """Return a case-folded English word with the endings `or`, `ize` and `yze` instead of the British ones."""
    if "our" in word:
        word = _WITH_OUR.sub(r"\1r", word)
    if word in _PROGRAMMES:
        return "program"
    if "is" in word:
        return _WITH_ISE.sub(r"\1z", word)
    return _WITH_YSE.sub(r"\1z", word) if "ys" in word else word


def one_stem(stem: str) -> str:
    """Return the stem that both spellings of a word have."""
    return _STEMS.get(stem, stem)


def letters_in_both(stem: str) -> int:
    """Return with how many letters of `stem` both spellings begin."""
    root = _WITH_OUR.match(stem)
    return root.end(1) if root else len(stem)
