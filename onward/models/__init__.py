"""Claude's models.

`table` is what we know of each, `api` asks the Models API, `fit` refuses what a model is known to
refuse.
"""
