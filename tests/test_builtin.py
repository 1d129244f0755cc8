"""The built-in agents' own tools, against a real payments service."""

from typing import Any

import httpx2
import pytest

from onward import ToolContext
from onward.builtin import lookup_order, refund
from onward.testing.payments import PaymentsProcess
from onward.tools import error_content, meaning


async def use(tool: Any, key: str, **given: object) -> Any:
    """Call a tool as a worker would."""
    context = ToolContext(idempotency_key=key, call="1.1", run="r")
    return await tool.run(given, context)


async def test_repeated_refund_with_the_same_key_is_made_once(
    payments: PaymentsProcess, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`refund` hands its idempotency key on, so a lost attempt may be repeated."""
    monkeypatch.setenv("PAYMENTS_URL", payments.url)
    first = await use(refund, "onw_builtin", order_id="built-in-1", amount_cents=5)
    assert await use(refund, "onw_builtin", order_id="built-in-1", amount_cents=5) == first
    made = [effect for effect in payments.effects() if effect.order == "built-in-1"]
    assert [(effect.key, effect.amount_cents) for effect in made] == [("onw_builtin", 5)]


async def test_order_is_looked_up_by_any_id(
    payments: PaymentsProcess, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An id with odd characters asks for that order and for no other address."""
    monkeypatch.setenv("PAYMENTS_URL", payments.url)
    assert (await use(lookup_order, "onw_x", order_id="A/1?b#c"))["order"] == "A/1?b#c"


async def test_refusal_of_the_service_reaches_claude_with_its_reason(
    payments: PaymentsProcess, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What the service answers to a bad refund is a rejection, in its words."""
    monkeypatch.setenv("PAYMENTS_URL", payments.url)
    with pytest.raises(httpx2.HTTPStatusError) as caught:
        await use(refund, "onw_builtin_2", order_id="", amount_cents=5)
    assert meaning(caught.value) == "rejected"
    assert "order must be a text" in error_content(caught.value)
