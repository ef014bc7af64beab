from __future__ import annotations

import subprocess
import sys

LOOK = """
from knowledge.merge.claims.statements import statements_of
from knowledge.merge.document.units import cut, units
from knowledge.merge.evidence.weigh.page_index import PageIndex

WORDS = "cache queue worker session index archive broker gateway ledger scanner".split()
page = units(cut("\\n\\n".join(f"The {a} reads the {b} at night." for a in WORDS for b in WORDS if a != b)))
(new,) = statements_of(units(cut("The " + " and the ".join(WORDS) + " stop.")), "en")
print([old.unit for old in PageIndex(page, "en").near(new)])
"""


def test_of_equally_near_statements_every_process_finds_the_same() -> None:
    """An approved plan is made again, perhaps in another process, and must come out the same."""
    runs = [
        subprocess.Popen([sys.executable, "-c", LOOK], stdout=subprocess.PIPE, env={"PYTHONHASHSEED": seed})
        for seed in ("1", "2")
    ]
    first, second = (run.communicate()[0] for run in runs)
    assert first == second != b""
