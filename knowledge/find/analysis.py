"""Words: how text becomes the terms that are indexed and asked for. Pure; the same in every engine.

`words(text)` -> the words as written, normalised (NFKC, case-folded), in order, CJK cut to single characters and pairs.
`Analyzer(language).terms(text)` -> the words without stop words, stemmed: what a keyword index stores.
"""
