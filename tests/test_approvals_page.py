"""The page on approvals is true: its app is loaded, and its rules judge as it says."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

from calls_prepared import prepared_for
from pages import Reader

from onward import Agent
from onward.messages import Waiting
from onward.notices import notice_of
from onward.wording import how_to_answer

WAITING = Waiting(
    call="1.1",
    kind="approval",
    tool="refund",
    summary="order 1042",
    why="key account",
    view="v",
    since_ms=0,
    expires_ms=48 * 3600 * 1000,
)


async def test_the_code_of_the_page_does_what_it_says(tmp_path: Path) -> None:
    """Whoever copies it gets the rules that they read, and hears what waits."""
    reader = Reader("docs/approvals.md", tmp_path)
    said = list[str]()

    async def post(text: str) -> None:
        said.append(text)

    page: dict[str, Any] = {"chat": SimpleNamespace(post=post)}
    for containing in ("Rule(", "notify"):
        exec(reader.code(containing), page)  # noqa: S102  (our own page)
    judges(page["support"])
    await page["notify"](notice_of("r", "support", WAITING))
    assert said == [f"r: refund order 1042\n{how_to_answer('r', WAITING)}"]
    assert reader.untyped() == set()


def judges(support: Agent) -> None:
    """Check the rules of the page's agent."""

    def judged(order: str, cents: int) -> tuple[str, str, float]:
        call = prepared_for(support, "refund", f'{{"order_id":"{order}","amount_cents":{cents}}}')
        return call.refusal or call.ask, call.summary, call.expires_s

    own, hours = "the tool asks a person first for such an input", 48 * 3600
    assert judged("1042", 25_00) == ("", "order 1042 · $25.00", 0)
    assert judged("1042", 60_00) == (own, "order 1042 · $60.00", hours)
    assert judged("B2B-7", 60_00)[0] == f"key account; {own}"
    assert judged("B2B-7", 6_000_00)[0].endswith(
        "denies this call: too much for this desk. Nothing was done."
    )


def test_what_waits_says_until_when() -> None:
    """A person who reads it tomorrow knows whether there is anything left to decide."""
    assert how_to_answer("r", WAITING).endswith("by 1970-01-03 00:00 UTC it is denied")
