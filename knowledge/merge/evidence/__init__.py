"""Weighing evidence, which comes without a base, against a page.

Each decision has one place:

- a duplicate, a paraphrase, a text that covers another: `implies`, `is_paraphrase`, `covers` in `claims/statements.py`;
- a contradiction: `claims/comparison.py`, looked for in `weigh/`;
- whether evidence may replace text of the page: `Weighing.replacing` in `weighing_state.py`, and nowhere else;
- where new text goes: `place_new_texts` in `place/insertion.py`, which asks `Placer.place` in `place/placement.py`;
- whether a planned change is written after all: `outcome.py`, which reads the page again as it would be with the
  change.
"""
