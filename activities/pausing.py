"""The look at the switch before an effect: while its agent is paused, a call waits unclaimed."""

from temporalio import activity

from onward.invoked import typed
from onward.pausing.switch import Switch, in_words

from .failures import again
from .services import Services

_LOOK_EVERY_S, _LOOK_AT_LEAST_EVERY_S = 2.0, 10.0


async def wait_while_paused(services: Services, agent: str) -> None:
    """Raise what Temporal retries while the agent is paused; one round trip where it is not.

    Raises redis.exceptions.RedisError where nobody can tell: then nothing may be fired either.
    """
    paused = await Switch(services.redis, services.temporal.namespace).find(agent)
    if paused is None:
        return
    # A thousand calls that wait for hours must not keep Temporal busy with their looking.
    delay_s = min(_LOOK_EVERY_S * activity.info().attempt, _LOOK_AT_LEAST_EVERY_S)
    raise again(
        "paused",
        f"{in_words(agent, paused)}. Nothing was fired. "
        f"`{typed('resume', '--agent', agent)}` lets it go on",
        delay_s=delay_s,
        expected=True,
    )
