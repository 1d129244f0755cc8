"""Words of people and of Claude inside Markdown, as the Temporal UI shows it."""

import re

_MARKUP = re.compile(r"([\\`*_{}\[\]()#+\-.!:|&<>~^$])")


def literal(text: str) -> str:
    """Escape what Markdown reads as markup, so that the text is seen as it was written.

    Claude's words could make a link that passes for Onward's own. And the UI shows what is between
    two dollar signs, such as two prices, as a formula.
    """
    return _MARKUP.sub(r"\\\1", text)
