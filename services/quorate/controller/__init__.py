"""The controller: take, decide, propose, apply, answer; the live table; what the leader does by itself."""

from quorate.controller.agreeing import Agreeing
from quorate.controller.comparing import Comparison, StateIsWrongError
from quorate.controller.group_writer import GroupWriter, Written
from quorate.controller.live import Channel, Heartbeat, LiveNow, LiveTable
from quorate.controller.liveness import Liveness
from quorate.controller.loop import Controller, ReadResult, ReadView
from quorate.controller.machine import ReplicatedState
from quorate.controller.messages import QuorumIs, VoterIs
from quorate.controller.outcomes import (
    Answered,
    Busy,
    Caller,
    Found,
    NotFound,
    NotLeader,
    Outcome,
    ReadOutcome,
    Refused,
    Unavailable,
    UnknownOutcome,
)
from quorate.controller.ports import BrokerLink, CommandLine, DialResult, Journalist, PeerLink, RoleChange
from quorate.controller.rereading import Reread
from quorate.controller.role_changes import RoleChanges
from quorate.controller.settings import ControllerSettings

__all__ = [
    "Agreeing",
    "Answered",
    "BrokerLink",
    "Busy",
    "Caller",
    "Channel",
    "CommandLine",
    "Comparison",
    "Controller",
    "ControllerSettings",
    "DialResult",
    "Found",
    "GroupWriter",
    "Heartbeat",
    "Journalist",
    "LiveNow",
    "LiveTable",
    "Liveness",
    "NotFound",
    "NotLeader",
    "Outcome",
    "PeerLink",
    "QuorumIs",
    "ReadOutcome",
    "ReadResult",
    "ReadView",
    "Refused",
    "ReplicatedState",
    "Reread",
    "RoleChange",
    "RoleChanges",
    "StateIsWrongError",
    "Unavailable",
    "UnknownOutcome",
    "VoterIs",
    "Written",
]
