"""From a question to ranked chunks. Whether they are enough is judged in `knowledge/search/scent/`.

`ranker.py` runs the steps in order; decision record 14 gives the reasons for their constants.

| step | where |
|---|---|
| ask the engines for chunks and pages | `ranker.py` |
| search again for words that the best chunks share | `feedback.py` |
| add up the signals of each chunk | `signals.py` |
| join the lists of a server by reciprocal rank | `fusion.py`: `fuse` |
| exact names first, near-duplicates out | `ranker.py`, `fusion.py`: `collapse` |
| move up chunks with more of the question's words, and with neighbours | `ranker.py`: `boost_coverage` |
| the weights of these steps | `weights.py` |

Corrections of typing errors happen before all of this, in `knowledge/search/query/corrections.py`.
"""
