"""The rate limits that workers share: the script in Redis, with a clock that the test sets."""

from collections.abc import AsyncGenerator

import pytest
import pytest_asyncio
from agent_runs import connected
from rate_limit_clock import Pool
from rate_limit_load import Kinds, Load

SECONDS = 300.0
RPM = {"limit_requests": 60.0}
STEP_S = 60 / (60 * 0.98)
"""Between two requests at that limit, of which a part is kept in hand."""
AT_ONCE_S = (60 * 0.02 - 1) / 0.98
"""How much sooner the second one may go for that part."""


@pytest_asyncio.fixture(loop_scope="session")
async def pool(redis_url: str) -> AsyncGenerator[Pool]:
    """A pool of its own, of which nothing is known."""
    async with connected(redis_url) as redis:
        yield Pool(redis)


@pytest.mark.parametrize(
    ("runs", "tokens", "limits", "scarce"),
    [
        (20, 900, {"requests": 20, "input": 30_000, "output": 50_000}, "requests"),
        (60, 1_000, {"requests": 50, "input": 10_000, "output": 50_000}, "input"),
        (60, 100, {"requests": 300, "input": 90_000, "output": 12_000}, "output"),
    ],
)
async def test_the_scarcest_limit_is_used_to_95_percent(
    pool: Pool, runs: int, tokens: float, limits: Kinds, scarce: str
) -> None:
    """An API as documented refuses nothing, no minute holds more requests, and all are used."""
    load = Load(pool, limits, seed=runs, runs=runs, tokens=tokens)
    await load.run(SECONDS)
    assert load.refused == 0
    assert load.used(scarce, SECONDS) >= 0.95
    assert load.fullest_minute("requests") <= limits["requests"]


async def test_nobody_is_passed_over(pool: Pool) -> None:
    """Who asked first is let in first, however much the requests differ: no run starves."""
    await pool.learn(limit_requests=60, limit_input=6_000)
    waits = [await pool.take(str(n), tokens) for n, tokens in enumerate([5_000, 10, 3_000, 10, 1])]
    assert waits == sorted(waits)
    pool.now_s += waits[3]
    assert await pool.take("late", 1) > 0
    assert [await pool.take(str(n), 0) for n in (1, 2, 3)] == [0, 0, 0]


async def test_who_waited_is_served_at_its_time(pool: Pool) -> None:
    """A reserved time is kept and not charged twice; those who came meanwhile have later ones."""
    await pool.learn(**RPM)
    first, second, third = [await pool.take(who, 1) for who in ("a", "b", "c")]
    assert (first, second, third) == pytest.approx(
        (0, STEP_S - AT_ONCE_S, 2 * STEP_S - AT_ONCE_S), abs=0.01
    )
    pool.now_s += second
    assert await pool.take("d", 1) == pytest.approx(2 * STEP_S, abs=0.01)
    assert await pool.take("b", 1) == 0
    pool.now_s += STEP_S
    assert await pool.take("c", 1) == 0


async def test_without_limits_nobody_waits(pool: Pool) -> None:
    """Where the API tells no limits, as behind some gateways, nothing is held back or written."""
    assert await pool.take("a", 1_000_000) == -1
    assert await pool.keys() == []


async def test_limits_of_ones_own_lower_those_of_the_api(pool: Pool) -> None:
    """A person's limit holds where the API allows more, and where it has told nothing yet."""
    assert await pool.take("a", 1, cap_requests=6) == 0
    assert await pool.take("b", 1, cap_requests=6) > 9
    await pool.learn(limit_requests=600)
    assert await pool.take("c", 1, cap_requests=6) > 19


async def test_a_429_holds_all_and_keeps_their_order(pool: Pool) -> None:
    """While the API refuses, nobody goes; after that all go in the order and distance they had."""
    await pool.learn(**RPM)
    before = [await pool.take(who, 1) for who in ("a", "b", "c")]
    await pool.slow(10)
    pool.now_s += 4
    assert [await pool.take(who, 1) for who in ("b", "c")] == pytest.approx(
        [wait_s + 6 for wait_s in before[1:]], abs=0.01
    )
    await pool.slow(3)  # another worker's refusal, that ends sooner, changes nothing
    assert await pool.take("b", 1) == pytest.approx(before[1] + 6, abs=0.01)


async def test_a_429_holds_all_where_no_limit_is_known(pool: Pool) -> None:
    """Also behind a gateway that tells no limits, one worker's 429 is heard by the others."""
    await pool.slow(10)
    assert await pool.take("a", 1) == pytest.approx(10, abs=0.01)
    pool.now_s += 10
    assert await pool.take("a", 1) == 0


async def test_refusals_without_a_hint_hold_longer_and_longer(pool: Pool) -> None:
    """What the API does not say is guessed, twice as long each time; many at once are one."""
    held = list[float]()
    for _ in range(4):
        for _ in range(3):
            await pool.slow(20, guessed=True)
        held.append(await pool.take("a", 1))
        pool.now_s += held[-1]
    assert held == pytest.approx([20, 40, 80, 120], abs=0.01)
    pool.now_s += 61
    await pool.slow(20, guessed=True)
    assert await pool.take("a", 1) == pytest.approx(20, abs=0.01)


async def test_what_others_use_makes_all_wait(pool: Pool) -> None:
    """Another program with the same key uses up the limit: the headers tell it, before any 429."""
    told = {"limit_input": 10_000.0, "limit_requests": 600.0}
    await pool.learn(**told, remaining_input=5_000)
    assert await pool.take("a", 100) == 0
    await pool.learn(**told, remaining_input=0)
    assert await pool.take("b", 100) == pytest.approx(6, abs=0.05)


async def test_what_we_use_ourselves_makes_nobody_wait_twice(pool: Pool) -> None:
    """A request that takes most of a minute's tokens is waited for once: it is charged already."""
    await pool.learn(limit_input=10_000)
    assert await pool.take("a", 9_700) == 0
    charged = await pool.take("b", 1_000)
    await pool.learn(limit_input=10_000, remaining_input=300)
    assert await pool.take("b", 1_000) == charged


async def test_what_was_not_used_can_be_used_by_the_next(pool: Pool) -> None:
    """Settled with the real usage: an estimate that was too high keeps nobody waiting for long."""
    await pool.learn(limit_input=10_000)
    assert await pool.take("a", 9_700) == 0
    await pool.settle("a", 1, 100, 10)
    assert await pool.take("b", 100) == 0


async def test_one_request_holds_the_others_for_a_minute_at_most(pool: Pool) -> None:
    """A wrong estimate, or a limit that is not ours, cannot stop all runs for an hour."""
    await pool.learn(limit_input=10_000)
    assert await pool.take("a", 1_000_000) == 0
    await pool.settle("a", 1, 1_000_000, 10)
    assert await pool.take("b", 1) < 63


async def test_a_request_sent_again_is_charged_again(pool: Pool) -> None:
    """A worker died in mid-request: what it sent counts at the API, and so does the next one."""
    await pool.learn(limit_requests=6)
    assert await pool.take("a", 1) == 0
    assert await pool.take("a", 1) > 9


async def test_cancelled_runs_leave_no_queue_behind(pool: Pool) -> None:
    """A hundred runs that waited are cancelled; the next one does not wait for their turns."""
    await pool.learn(limit_requests=600, limit_input=6_000)
    queued = [str(number) for number in range(100)]
    assert max([await pool.take(who, 1_000) for who in queued]) > 900
    for who in queued:
        await pool.drop(who)
    assert await pool.take("next", 1_000) <= 11


async def test_a_wipe_of_redis_starts_afresh(pool: Pool) -> None:
    """Limits are learned again from the next response, and nothing of before stands in the way."""
    await pool.learn(limit_requests=6)
    assert [await pool.take(who, 1) > 0 for who in "ab"] == [False, True]
    await pool.wipe()
    await pool.settle("a", 1, 1, 1)
    assert await pool.take("b", 1) == -1


@pytest.mark.parametrize("back_s", [0.5, 3600])
async def test_a_clock_that_goes_back_keeps_nobody_waiting(pool: Pool, back_s: float) -> None:
    """A replica whose clock is behind takes over: what was an hour ago does not come again."""
    await pool.learn(**RPM)
    before = [await pool.take(who, 1) for who in ("a", "b")]
    await pool.slow(10)
    pool.now_s -= back_s
    assert await pool.take("b", 1) == pytest.approx(before[1] + 10, abs=0.01)
    pool.now_s += before[1] + 10
    assert await pool.take("b", 1) == 0
    assert await pool.take("c", 1) == pytest.approx(STEP_S, abs=0.01)


async def test_nothing_is_left_behind(pool: Pool) -> None:
    """Every key expires, a reservation that nobody came back for soon after its time."""
    await pool.learn(limit_requests=6)
    for who in "ab":
        await pool.take(who, 1)
    lives = {key.rpartition(":")[2]: life_s for key, life_s in await pool.keys()}
    assert lives == pytest.approx({"test": 86_400, "a": 3_600, "b": 50.3}, rel=0.01)
    await pool.settle("a", 1, 1, 1)
    await pool.drop("b")
    assert [key.rpartition(":")[2] for key, _ in await pool.keys()] == ["test"]
