"""A crash test for tools of yours: whether they keep what their effect class promises.

    async def test_refund_survives_crashes() -> None:
        report = await crash_test(
            refund, input={"order_id": "{unique}", "amount_cents": 500}, probe=count_refunds
        )
        report.assert_held()

The tool runs in real workers against the embedded servers. They are killed at each point that a
call passes, paused past their lease while a successor acts, and cut off from a reply. Whether the
effect happened is told by the probe alone, and by what Claude was told. On the command line:
`onward crashtest refunds:refund --input … --probe …`.
"""

from onward.testing.crash_test.report import CrashReport, TrialReport
from onward.testing.crash_test.testing import crash_test

__all__ = ["CrashReport", "TrialReport", "crash_test"]
