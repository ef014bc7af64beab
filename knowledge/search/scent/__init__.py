"""How likely each page of an answer answers the question, and the verdict: sufficient, partial or lost, and the next call.

Decision record 17 gives the reasons.

| step | where |
|---|---|
| the measurements of an answer | `signs.py` |
| measure a ranking | `ranking_signs.py` |
| count the question's words on the first page | `counted_words.py` |
| look for the codes, names and dates that stand for one thing only | `distinct_words.py` |
| the probability, the level, the reason and the next call | `verdict.py` |
| a question in another language than the pages | `across_languages.py` |
"""
