"""`@tool`: what Claude is shown of a function, and what the function gets."""

import asyncio
import gc
import json
from collections.abc import Callable
from decimal import Decimal
from typing import Annotated, Any, Literal

import pydantic
import pytest
from anthropic.lib.tools import BetaFunctionTool
from pydantic import Field

from onward import Rejected, ToolContext, tool
from onward.errors import AppError
from onward.tools import check

CONTEXT = ToolContext(idempotency_key="onw_key", call="12.1", run="run-1")


class Address(pydantic.BaseModel):
    street: str
    zip: Annotated[str, Field(pattern=r"^\d{5}$")]


@tool(effect="keyed", timeout_s=5)
async def ship(
    order_id: str,
    count: Annotated[int, Field(gt=0)],
    ctx: ToolContext,
    speed: Literal["slow", "fast"] = "slow",
    to: Address | None = None,
) -> dict[str, Any]:
    """Ship an order.

    Only once.

    Args:
        order_id: As printed on the invoice.
    """
    return {"order": order_id, "count": count, "to": to, "speed": speed, "key": ctx.idempotency_key}


def test_decorated_function_is_called_as_written() -> None:
    """A unit test of a tool just calls it, sync or async, unconverted."""

    @tool
    def double(number: int) -> int:
        """Double it."""
        return number * 2

    assert double(21) == 42
    assert double("ab") == "abab"  # type: ignore[arg-type, comparison-overlap]  # pyright: ignore[reportArgumentType]
    shipped = asyncio.run(ship("A1", 2, CONTEXT, speed="fast"))
    assert shipped["key"] == "onw_key"
    assert double.name == "double"
    assert double.__doc__ == "Double it."


def test_a_schema_is_made_once_however_many_runs_begin() -> None:
    """What the client makes for one is never freed: made for every run, it would fill a worker."""

    @tool
    def nobody_elses_tool(number: int) -> int:
        """Ask for a schema."""
        return number

    changed = nobody_elses_tool.definition()
    changed["input_schema"].clear()
    assert nobody_elses_tool.definition()["input_schema"]["properties"]
    alive = [str(vars(each)["name"]) for each in gc.get_objects() if type(each) is BetaFunctionTool]
    assert alive.count("nobody_elses_tool") == 1


def test_undeclared_effect_is_at_most_once() -> None:
    """Who declares nothing gets the class that never repeats, and two minutes."""

    @tool
    def send() -> None: ...

    assert (send.name, send.effect, send.timeout_s) == ("send", "at_most_once", 120.0)
    assert (ship.effect, ship.timeout_s) == ("keyed", 5.0)


def test_definition_has_types_bounds_and_docstring_but_no_context() -> None:
    """The schema that Claude sees says all that the annotations and the docstring say."""
    definition = ship.definition()
    schema = definition["input_schema"]
    assert definition["name"] == "ship"
    assert definition["description"] == "Ship an order.\n\nOnly once."
    assert list(schema["properties"]) == ["order_id", "count", "speed", "to"]
    assert schema["required"] == ["order_id", "count"]
    assert schema["properties"]["order_id"]["description"] == "As printed on the invoice."
    assert schema["properties"]["count"]["exclusiveMinimum"] == 0
    assert schema["properties"]["speed"]["enum"] == ["slow", "fast"]
    assert schema["$defs"]["Address"]["properties"]["zip"]["pattern"] == r"^\d{5}$"
    assert schema["additionalProperties"] is False
    assert json.loads(json.dumps(definition)) == definition


def test_tool_without_docstring_is_described_by_its_name() -> None:
    """The API wants a description; the name is the honest one where nobody wrote any."""

    @tool(effect="read")
    def look(where: str) -> str:
        return where

    assert look.definition()["description"] == "look"


def test_tool_without_parameters_takes_an_empty_object() -> None:
    """A tool may need nothing from Claude, or only the context."""

    @tool(effect="read")
    def where(ctx: ToolContext) -> str:
        return ctx.call

    schema = where.definition()["input_schema"]
    assert schema["type"] == "object"
    assert schema["properties"] == {}
    assert asyncio.run(where.run({}, CONTEXT)) == "12.1"


def test_run_converts_input_to_the_annotated_types_and_injects_the_context() -> None:
    """The function gets models and numbers, not JSON; the context is the call's own."""
    given = {"order_id": "A1", "count": 2, "to": {"street": "Main", "zip": "12345"}}
    result: Any = asyncio.run(ship.run(given, CONTEXT))
    assert result["to"] == Address(street="Main", zip="12345")
    assert result["key"] == "onw_key"
    assert result["speed"] == "slow"


def test_run_converts_to_typed_values_of_all_kinds() -> None:
    """Decimals keep their digits and sets their kind (C23)."""

    @tool(effect="read")
    def kinds(price: Decimal, tags: set[str], big: int) -> object:
        return price, tags, big

    result = asyncio.run(kinds.run({"price": "0.10", "tags": ["a", "a"], "big": 2**60}, CONTEXT))
    assert result == (Decimal("0.10"), {"a"}, 2**60)


@pytest.mark.field("C21")
@pytest.mark.parametrize(
    "given",
    [
        {"order_id": "A1"},
        {"order_id": "A1", "count": 0},
        {"order_id": "A1", "count": 1, "extra": 1},
        {"order_id": "A1", "count": 1, "ctx": {"idempotency_key": "forged"}},
        {"order_id": "A1", "count": 1, "to": {"street": "Main", "zip": "x"}},
    ],
    ids=["missing", "too small", "extra", "the context", "nested"],
)
def test_input_that_does_not_fit_is_rejected_before_the_function_runs(
    given: dict[str, Any],
) -> None:
    """Bad input certainly did nothing, so Claude hears of it and nothing is in doubt."""
    reason = check(given, ship.definition()["input_schema"])
    assert reason is not None
    assert reason.startswith("Input does not fit the schema")
    with pytest.raises(Rejected, match="Nothing was done"):
        asyncio.run(ship.run(given, CONTEXT))


def test_input_that_fits_passes_the_check() -> None:
    """A valid call is not held up."""
    assert check({"order_id": "A1", "count": 1}, ship.definition()["input_schema"]) is None


@pytest.mark.parametrize("given", [None, "", "text", 3, {"a": [[["x"]]] * 3}])
def test_check_answers_whatever_it_is_given(given: object) -> None:
    """Claude may send anything; the answer is a reason in words, bounded."""
    reason = check(given, ship.definition()["input_schema"])
    assert reason is not None
    assert len(reason) < 2000


def test_check_survives_a_schema_that_is_none() -> None:
    """A schema that cannot be judged leaves judgement to the conversion."""
    assert check({}, {"type": "nonsense"}) is None


def test_validator_that_raises_anything_is_a_rejection() -> None:
    """Whatever goes wrong before the function runs, nothing was done."""

    def explode(_: str) -> str:
        raise KeyError("lost")

    @tool
    def careful(value: Annotated[str, pydantic.AfterValidator(explode)]) -> str:
        return value

    with pytest.raises(Rejected, match="KeyError"):
        asyncio.run(careful.run({"value": "x"}, CONTEXT))


def test_validation_error_inside_the_function_is_not_a_rejection() -> None:
    """A pydantic error from the function's own work says nothing about the effect."""

    @tool
    def inner() -> object:
        return Address.model_validate({})

    with pytest.raises(pydantic.ValidationError):
        asyncio.run(inner.run({}, CONTEXT))


def _positional(value: str, /) -> str:
    return value


def _args(*values: str) -> str:
    return values[0]


def _kwargs(**values: str) -> str:
    return str(values)


def _method(self: object) -> object:
    return self


def _yields() -> Any:
    yield 1


@pytest.mark.parametrize(
    ("function", "said"),
    [
        (_positional, "positional-only"),
        (_args, r"\*values"),
        (_kwargs, r"\*\*values"),
        (_method, "'self'"),
        (_yields, "return a list"),
        (lambda: 1, "cannot be named '<lambda>'"),
        (len, "decorates a function"),
        (Address, "decorates a function"),
    ],
)
def test_function_that_cannot_be_a_tool_is_refused_at_decoration(
    function: Callable[..., Any], said: str
) -> None:
    """The author hears at import what is wrong, not Claude in the middle of a run."""
    with pytest.raises(AppError, match=said):
        tool(function)


def test_unknown_effect_names_the_allowed_ones() -> None:
    """A typo in the effect class must not silently change what is guaranteed."""
    known = "'read', 'keyed', 'transactional', 'at_most_once', 'sealed', 'timed'"
    with pytest.raises(AppError, match=f"'onec'.*{known}"):
        tool(effect="onec")(_named)  # type: ignore[call-overload]  # pyright: ignore[reportCallIssue, reportArgumentType]


@pytest.mark.parametrize("timeout_s", [0, -1, float("inf"), float("nan"), "5"])
def test_timeout_that_is_no_finite_number_above_zero_is_refused(timeout_s: Any) -> None:
    """Every call ends: no tool may take for ever."""
    with pytest.raises(AppError, match="timeout_s"):
        tool(timeout_s=timeout_s)(_named)


def _named() -> None: ...


def test_annotation_that_cannot_be_resolved_is_an_app_error() -> None:
    """A name that is not imported is reported with the tool's name."""

    def lost(value: object) -> None:
        del value

    lost.__annotations__["value"] = "Nowhere"
    with pytest.raises(AppError, match=r"'lost'.*Nowhere"):
        tool(lost).definition()


def test_type_without_a_schema_is_an_app_error() -> None:
    """A parameter that JSON cannot express is reported with the tool's name."""

    class Socket: ...

    @tool
    def talk(socket: Socket) -> None:
        del socket

    with pytest.raises(AppError, match="'talk'"):
        talk.definition()

    @tool
    def call(back: Callable[[int], int]) -> None:
        del back

    with pytest.raises(AppError, match="'call'"):
        call.definition()


def test_two_contexts_are_an_app_error() -> None:
    """One call has one context."""

    @tool
    def twice(one: ToolContext, two: ToolContext) -> None:
        del one, two

    with pytest.raises(AppError, match="one, two"):
        twice.definition()
