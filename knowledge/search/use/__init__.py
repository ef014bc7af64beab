"""The recorded use of search, on this machine only: questions, the pages used after them, and weights chosen from these.

| what | where |
|---|---|
| the two kinds of events | `events.py` |
| the file that holds them, `use.db` in the state folder | `store.py` |
| collecting them while a server answers | `recorder.py` |
| the ranking weights that a person stored | `stored_weights.py` |

`knowledge/evaluate/use` turns events into labels and finds better weights. Decision record 58 gives the reasons.
"""
