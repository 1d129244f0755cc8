"""What Claude and people say, in the Markdown of the Temporal UI."""

from onward.markdown import literal


def test_no_link_markup_or_formula_is_made_of_other_peoples_words() -> None:
    """Claude cannot put a link of its own beside our commands; two prices are no formula."""
    assert literal("[free](http://x) <b>") == r"\[free\]\(http\://x\) \<b\>"
    assert literal("# $5, or $6\n- `a_b`") == "\\# \\$5, or \\$6\n\\- \\`a\\_b\\`"
    assert literal("Zwei Lampen, à 60 €") == "Zwei Lampen, à 60 €"
