"""What is tested: a tool, the input of its call, and the probe that counts its effects."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from onward.errors import UsageError
from onward.messages import EffectClass
from onward.testing.crash_test.loading import load_tool, spec_of
from onward.testing.crash_test.probe import Probe, ProbeFunction
from onward.testing.crash_test.unique import filled, new_unique
from onward.tools import Tool, check


@dataclass(frozen=True)
class Subject:
    """A tool to be tested; made by `subject`."""

    spec: str
    """Where workers find it: `module:name`."""
    tool: Tool[..., Any]
    template: Mapping[str, Any]
    """Input of a call, `{unique}` not filled in."""
    probe: Probe

    @property
    def effect(self) -> EffectClass:
        """The class whose promise is tested."""
        return self.tool.effect

    def given(self, unique: str) -> dict[str, Any]:
        """Input of one trial's call."""
        return filled(dict(self.template), unique)


def subject(
    tool: Tool[..., Any] | str, given: Mapping[str, Any], probe: ProbeFunction | str
) -> Subject:
    """Find the tool and the probe, and check the input. Raises UsageError and AppError."""
    found = load_tool(tool) if isinstance(tool, str) else tool
    spec = tool if isinstance(tool, str) else spec_of(tool)
    made = Subject(spec, found, dict(given), Probe(probe))
    if problem := check(made.given(new_unique()), found.definition()["input_schema"]):
        raise UsageError(f"the input for {spec!r} cannot be used. {problem}")
    return made
