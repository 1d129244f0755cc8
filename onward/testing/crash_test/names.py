"""Names that the crash test and its workers share."""

AGENT, MODEL = "crashtest", "claude-sonnet-5-5"
APP = "onward.testing.crash_test.worker_app:app"
TOOL_ENV, RECORDING_ENV = "CRASHTEST_TOOL", "CRASHTEST_RECORDING"
LINE_ENV, MOMENT_ENV = "CRASHTEST_LINE", "CRASHTEST_MOMENT"
