"""Names that outlive every retry, reset and loss of Redis."""

import json
import sys

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from onward.identity import fingerprint, idempotency_key, run_key

RUN = "0191d8a0-0000-7000-8000-000000000000"
JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=20,
)


@settings(deadline=None)  # a busy machine is no bug
@given(st.text())
def test_no_workflow_id_moves_the_hash_tag(workflow_id: str) -> None:
    """All keys of a run stay in one slot of a cluster, whatever people call it."""
    key = run_key(workflow_id, RUN)
    assert key.isascii()
    assert not set(key) & set("{} \n")
    assert key.endswith(f":{RUN}")


def test_runs_have_names_of_their_own() -> None:
    """Escaping never makes two runs one; a plain id stays readable."""
    ids = ["a", "a:b", "a%3Ab", "a{b}", "a%7Bb%7D", "A", "\u00e9", "\ud800", ""]
    assert len({run_key(name, RUN) for name in ids}) == len(ids)
    assert run_key("fix-login_2.1", RUN) == f"fix-login_2.1:{RUN}"


def test_key_order_spaces_and_escapes_make_no_difference() -> None:
    """The same request, written another way, is the same request."""
    one = fingerprint("refund", '{"order": "A\\u0031", "cents": 5}')
    assert one == fingerprint("refund", '{"cents":5,"order":"A1"}')
    assert one != fingerprint("refund", '{"cents":5,"order":"A2"}')
    assert one != fingerprint("charge", '{"cents":5,"order":"A1"}')


@pytest.mark.parametrize(
    ("one", "other"), [("1.0", "1.00"), ("1e2", "100.0"), ("0", "-0"), ("[1,2]", "[2,1]")]
)
def test_another_literal_is_another_request(one: str, other: str) -> None:
    """A downstream that reads the literal sees two requests; so do we, never one too few."""
    assert fingerprint("t", f'{{"x":{one}}}') != fingerprint("t", f'{{"x":{other}}}')


@settings(deadline=None)  # a busy machine is no bug
@given(st.text(), JSON)
def test_every_input_has_a_fingerprint(tool: str, value: object) -> None:
    """Whatever the model asks for; and the fingerprint does not depend on how it is spelt."""
    found = fingerprint(tool, json.dumps(value))
    assert len(found) == 64
    assert found == fingerprint(tool, json.dumps(value, indent=1, ensure_ascii=False))


@pytest.mark.parametrize(
    "text",
    ["9" * 10_000, "[" * 100_000 + "]" * 100_000, '"\ud800"', '"\\ud800"', "", "{", "NaN", '"["'],
)
def test_odd_inputs_have_a_fingerprint_too(text: str) -> None:
    """Big integers, deep nesting, lone surrogates, half a JSON: no error after the model asked."""
    assert fingerprint("t", text) == fingerprint("t", text)
    assert fingerprint("t", text) != fingerprint("u", text)


def test_a_fingerprint_does_not_depend_on_the_stack() -> None:
    """Two attempts at different depths of the stack take the same one."""
    nested = "[" * 190 + " 1" + "]" * 190

    def deep(levels: int) -> str:
        return deep(levels - 1) if levels else fingerprint("t", nested)

    assert deep(sys.getrecursionlimit() // 3) == fingerprint("t", nested)


def test_an_idempotency_key_is_one_requests_own() -> None:
    """Every part counts; the key is plain ASCII and short enough for Stripe."""
    parts = ("prod", f"w:{RUN}", "12.1", "f" * 64)
    key = idempotency_key(*parts)
    assert key.startswith("onw_")
    assert len(key) == 44
    assert key == idempotency_key(*parts)
    deployment, run, call, fp = parts
    others = {
        idempotency_key("test", run, call, fp),
        idempotency_key(deployment, f"v:{RUN}", call, fp),
        idempotency_key(deployment, run, "12.2", fp),
        idempotency_key(deployment, run, call, "0" * 64),
    }
    assert len(others | {key}) == 5


def test_the_spelling_of_keys_is_fixed_for_ever() -> None:
    """Another key for the same call, after an upgrade, would send a refund twice."""
    fp = fingerprint("refund", '{"order":"A1","cents":1.50}')
    assert fp == "58f1631aa8ff1bd3115ac1ff2292bd318108bb4cd55b8abd95dbb45f326cc4a6"
    key = idempotency_key("prod", run_key("refunds/7", RUN), "12.1", fp)
    assert key == "onw_4JYAJ4XP72M5IFVP6H4TBXU6WAFI2WRZMFEAE6VD"
