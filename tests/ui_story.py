"""A morning at a shop's support desk: the runs that people look at in the Temporal UI.

Workers load the agents with `ONWARD_APP=ui_story:app`; Claude's side answers with `answer`.
"""

from dataclasses import dataclass
from decimal import Decimal
from typing import Any

import httpx2
from agent_runs import MODEL, says, uses

from onward import Agent, App, Limits, tool
from onward.builtin import lookup_order, refund
from onward.messages import RunRequest
from onward.testing.messages_api import Asked, Fault, Step
from onward.testing.messages_api.turns import first_text


@tool(irreversible=True)
async def send_letter(order_id: str, text: str) -> str:
    """Have a letter printed and posted."""
    raise httpx2.ReadTimeout(f"the print shop did not answer for order {order_id} ({len(text)})")


DAY_S = 24 * 3600.0
MARKUP = "I offer $5, or $6: see [our *terms*](http://127.0.0.1:9/) <b>now</b>."
"""What Claude says in one run: all of it would be markup in the Temporal UI."""

app = App(
    Agent(
        "support",
        model=MODEL,
        tools=[lookup_order, refund, send_letter],
        ask_timeout_s=3 * DAY_S,
    ),
    Agent(
        "billing",
        model="claude-haiku-4-5",
        tools=[lookup_order],
        limits=Limits(max_cost_usd=Decimal("0.10")),
        at_limit="wait",
    ),
)


@dataclass(frozen=True)
class Job:
    """A run of the story: what it is asked, and what Claude says."""

    request: RunRequest
    steps: tuple[Step, ...]


def _usage(read: int, written: int) -> dict[str, Any]:
    return {"usage": {"input_tokens": read, "output_tokens": written}}


def _call(tool: str, **given: Any) -> dict[str, Any]:
    return {"type": "tool_use", "name": tool, "input": given}


def refund_job(order: str) -> Job:
    """Refund 25.00, which needs no approval, and 120.00, which does."""
    large = _call("refund", order_id=order, amount_cents=12000)
    text = {"type": "text", "text": "The postage is refunded. Now the two lamps, for 120.00."}
    return Job(
        RunRequest(
            agent="support",
            prompt=f"Both lamps of order {order} came broken. Refund the lamps and the postage.",
            tags={"order": order},
        ),
        (
            uses(("lookup_order", {"order_id": order}), **_usage(1204, 310)),
            uses(("refund", {"order_id": order, "amount_cents": 2500}), **_usage(2310, 181)),
            Step(content=[text, large], **_usage(2702, 244)),
            says(f"Of order {order}, 25.00 and 120.00 are refunded.", **_usage(3011, 96)),
        ),
    )


def parcel_job(order: str) -> Job:
    """Look an order up, and wait for an API that does not answer."""
    return Job(
        RunRequest(agent="support", prompt=f"Where is the parcel of order {order}?"),
        (
            uses(("lookup_order", {"order_id": order}), **_usage(1190, 120)),
            says(faults=[Fault(hold_s=600)], faults_forever=True),
        ),
    )


JOBS = {
    "refund-1042": refund_job("1042"),
    "refund-1043": refund_job("1043"),
    "letter-0977": Job(
        RunRequest(
            agent="support",
            prompt="Write to the customer of order 977 that the parcel is lost.",
            tags={"order": "977"},
        ),
        (
            Step(
                content=[
                    {"type": "text", "text": MARKUP},
                    _call("send_letter", order_id="977", text="Your parcel is lost."),
                ],
                **_usage(1180, 402),
            ),
        ),
    ),
    "refund-1038": Job(
        RunRequest(agent="support", prompt="Refund 30.00 of order 1038.", tags={"order": "1038"}),
        (
            uses(("refund", {"order_id": "1038", "amount_cents": 3000}), **_usage(1990, 131)),
            says("30.00 of order 1038 are refunded.", **_usage(2390, 60)),
        ),
    ),
    "invoices-november": Job(
        RunRequest(agent="billing", prompt="Check November's invoices against the orders."),
        tuple(
            uses(("lookup_order", {"order_id": f"9{number:02}"}), **_usage(9000 * number, 900))
            for number in range(1, 9)
        ),
    ),
    "refund-1031": Job(
        RunRequest(agent="support", prompt="Refund order 1031."),
        (says(faults=[Fault(status=400)], faults_forever=True),),
    ),
    "parcel-1047": parcel_job("1047"),
    "parcel-1050": parcel_job("1050"),
    "parcel-1051": parcel_job("1051"),
}
"""By the id of the run."""


def answer(asked: Asked) -> Step:
    """Say what Claude says next in the run whose prompt the request begins with."""
    prompt = first_text(asked.body)
    (job,) = (job for job in JOBS.values() if prompt.startswith(job.request.prompt))
    return job.steps[asked.step]
