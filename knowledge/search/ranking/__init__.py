"""From a question to ranked chunks. Whether they are enough is judged in `knowledge/search/scent/`.

`Ranker.rank` in `ranker.py` runs the steps in this order; decision record 14 gives the reasons for their constants.

| step | where |
|---|---|
| ask the engines for chunks and pages | `ranker.py`: `_search` |
| ask the index for pages whose front matter has the words | `by_properties.py` |
| search again for words that the best chunks share | `feedback.py` |
| add up the signals of each chunk | `signals.py` |
| or join the lists of a server by reciprocal rank | `fusion.py`: `fuse` |
| exact names first, near-duplicates out | `ranker.py`: `_exact`, `fusion.py`: `collapse` |
| move up chunks with more of the question's words, and with neighbours | `ranker.py`: `boost_coverage` |
| the weights of these steps | `weights.py` |

The finder (`knowledge/search/finder.py`) then calls the others:

| step | where |
|---|---|
| let a reranker reorder the first chunks, if one is chosen | `knowledge/search/rerank/order.py` |
| put a page of a series (the newest, the second) first if the question asks for it | `page_series.py` |
| leave out what earlier parts of the answer showed, and show several pages in each | `answer_parts.py`, `fusion.py`: `spread` |
| say why hits rank where they do, if that is requested | `explanation.py` |

Corrections of typing errors happen before all of this, in `knowledge/search/query/corrections.py`.
"""
