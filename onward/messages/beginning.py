"""What stays fixed for a whole run, from its beginning on."""

from onward.messages.base import CachePolicy, EffectClass, Wire
from onward.messages.identity import Head, Witness
from onward.messages.request import Limits


class Opening(Wire):
    """Result of `begin`: what stays fixed for the whole run."""

    frozen: str
    """JSON text `{"model", "max_tokens", "system", "tools", …}`: a request without messages. Empty
    where a run carries it over: it is in the segments then."""
    effects: dict[str, EffectClass]
    """Effect class by tool name, frozen: a deploy that changes one is refused at the call."""
    limits: Limits
    witness: Witness
    head: Head
    takeover_s: float
    """Heartbeat timeout of activities, seconds."""
    price_known: bool = True
    """False: `max_cost_usd` cannot be enforced for this model."""
    search_attributes: bool = False
    """The server knows Onward's search attributes, so the workflow may set them."""
    shows_waiting: bool = False
    """`OnwardWaiting` is one of them: a worker of before 0.2 knew it not."""
    history_events: int = 0
    """Events of one workflow run's history after which the run continues as new; 0: never, as runs
    begun by a worker of before 0.3 must be replayed."""
    compacts: bool = False
    """Claude is asked for a summary where its context window is nearly full: a worker of before 0.3
    never did."""
    context_window: int | None = None
    """Tokens that the model takes; None: not known, or of a worker of before 0.4."""
    reads_in_step: bool = False
    """A reply's reads are run in the activity that got it: a worker of before 0.3 never did."""
    betas: tuple[str, ...] = ()
    """Beta features that every request names in its header."""
    cache: CachePolicy = "off"
    waits_at_limit: bool = False
    """A run that meets a limit waits for a person who raises it."""
    rules: int = 3
    """Of the loop's own decisions: a run keeps to those of the release that began it. 4: cut off
    replies are continued, pauses are counted, limits are those of 0.4. 5: waits for people are
    timers."""
    attributes: tuple[str, ...] = ()
    """Search attributes that the namespace has, of `names.ATTRIBUTES`: the run sets no others. With
    them go neither `search_attributes` nor `shows_waiting`, which are of before 0.5."""
    model: str = ""
    """Empty: of a worker of before 0.5."""
    notifies: bool = False
    """The app wants to be told what waits for a person."""
    copied_steps: int = 0
    """Steps of a fork that were copied; `limits.max_steps` counts them too."""
