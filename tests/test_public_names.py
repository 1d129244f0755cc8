"""The public surface, and what importing it costs."""

import subprocess
import sys

import onward


def test_public_names_are_exactly_these() -> None:
    """What users import does not change by accident."""
    assert sorted(onward.__all__) == [
        "Agent",
        "App",
        "Limits",
        "NotSent",
        "OnwardPlugin",
        "Rejected",
        "Rule",
        "ToolContext",
        "WaitingNotice",
        "run_agent",
        "tool",
    ]
    assert all(hasattr(onward, name) for name in onward.__all__)


def test_app_module_imports_neither_anthropic_nor_temporalio() -> None:
    """Loading an app, the built-in one included, stays fast: commands and workflows do it."""
    code = (
        "import sys, onward, onward.builtin;"
        "heavy = ('anthropic', 'temporalio', 'jsonschema', 'httpx2');"
        "print([name for name in heavy if name in sys.modules])"
    )
    found = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60
    )
    assert found.stdout.strip() == "[]"
