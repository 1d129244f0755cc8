"""Every type that crosses a process boundary: the wire format of workflows and activities.

All are frozen pydantic models. What Claude said and what is sent to Claude travels as *JSON text*
(`str`), never as nested objects: text keeps number literals and key order through every converter,
and newer models refuse a conversation whose earlier bytes changed. Only `onward/json_text.py`
reads and writes it. Fields may be added with a default; none is renamed or removed, because
histories of running runs hold them.
"""

from onward.messages.base import CachePolicy, EffectClass, Outcome, Wire
from onward.messages.beginning import Opening
from onward.messages.call import (
    BusinessKey,
    CallResult,
    Otherwise,
    PreparedCall,
    Settler,
    ToolInput,
)
from onward.messages.carried import Carried, CarryInput, HalfStep, Segment
from onward.messages.ending import EndInput, Refilled, RefillInput, RunResult, RunStatus
from onward.messages.identity import Head, RunRef, Witness
from onward.messages.people import (
    Approval,
    Denial,
    Doubt,
    Edited,
    EditInput,
    LimitChange,
    Message,
    Notified,
    NotifyInput,
    Paused,
    Remembered,
    Resolution,
    Resolve,
    ResolveInput,
    Said,
    Sent,
    Settlement,
    Waiting,
    WaitKind,
)
from onward.messages.request import CancelRequest, LimitOverrides, Limits, PauseRequest, Workspace
from onward.messages.run import BeginInput, Fork, ForkInput, RunRequest
from onward.messages.spend import Attempt, GiveUp, Rest, Spend, Tally
from onward.messages.step import (
    Addition,
    ClaudeInput,
    ClaudeReply,
    Compacting,
    ContextUse,
    Continue,
    PersonSaid,
    Prompt,
    ResultOf,
    ResultWritten,
)

__all__ = [
    "Addition",
    "Approval",
    "Attempt",
    "BeginInput",
    "BusinessKey",
    "CachePolicy",
    "CallResult",
    "CancelRequest",
    "Carried",
    "CarryInput",
    "ClaudeInput",
    "ClaudeReply",
    "Compacting",
    "ContextUse",
    "Continue",
    "Denial",
    "Doubt",
    "EditInput",
    "Edited",
    "EffectClass",
    "EndInput",
    "Fork",
    "ForkInput",
    "GiveUp",
    "HalfStep",
    "Head",
    "LimitChange",
    "LimitOverrides",
    "Limits",
    "Message",
    "Notified",
    "NotifyInput",
    "Opening",
    "Otherwise",
    "Outcome",
    "PauseRequest",
    "Paused",
    "PersonSaid",
    "PreparedCall",
    "Prompt",
    "RefillInput",
    "Refilled",
    "Remembered",
    "Resolution",
    "Resolve",
    "ResolveInput",
    "Rest",
    "ResultOf",
    "ResultWritten",
    "RunRef",
    "RunRequest",
    "RunResult",
    "RunStatus",
    "Said",
    "Segment",
    "Sent",
    "Settlement",
    "Settler",
    "Spend",
    "Tally",
    "ToolInput",
    "WaitKind",
    "Waiting",
    "Wire",
    "Witness",
    "Workspace",
]
