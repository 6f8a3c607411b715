"""The controller: take, decide, propose, apply, answer; the live table; what the leader does by itself."""

from quorate.controller.agreement import SettingsAgreement
from quorate.controller.balancer import Balancer
from quorate.controller.comparing import Comparison, StateIsWrongError
from quorate.controller.controller import Controller
from quorate.controller.group_writer import GroupWriter, WriteResult
from quorate.controller.in_flight import Flights
from quorate.controller.key_history import KeyChanges, KeyHistory
from quorate.controller.listeners import Listener, Listeners, WhenApplied
from quorate.controller.live import Channel, LiveNow, LiveTable
from quorate.controller.liveness import Liveness
from quorate.controller.machine import ReplicatedState
from quorate.controller.member_news import MemberNews
from quorate.controller.messages import QuorumIs, VoterIs
from quorate.controller.outcomes import (
    Answered,
    Busy,
    Caller,
    NotFound,
    NotLeader,
    Outcome,
    QueryResult,
    ReadOutcome,
    Refused,
    Unavailable,
    UnknownOutcome,
)
from quorate.controller.ports import (
    BrokerLink,
    CommandLine,
    CommandLog,
    ControllerPorts,
    DialResult,
    PeerLink,
    RoleChange,
    TopicLink,
)
from quorate.controller.rereading import Reread
from quorate.controller.role_changes import RoleChanges
from quorate.controller.settings import ControllerSettings
from quorate.controller.topic_pushes import TopicPushes
from quorate.controller.views import Level, ReadResult, ReadView, answered

__all__ = [
    "Answered",
    "Balancer",
    "BrokerLink",
    "Busy",
    "Caller",
    "Channel",
    "CommandLine",
    "CommandLog",
    "Comparison",
    "Controller",
    "ControllerPorts",
    "ControllerSettings",
    "DialResult",
    "Flights",
    "GroupWriter",
    "KeyChanges",
    "KeyHistory",
    "Level",
    "Listener",
    "Listeners",
    "LiveNow",
    "LiveTable",
    "Liveness",
    "MemberNews",
    "NotFound",
    "NotLeader",
    "Outcome",
    "PeerLink",
    "QueryResult",
    "QuorumIs",
    "ReadOutcome",
    "ReadResult",
    "ReadView",
    "Refused",
    "ReplicatedState",
    "Reread",
    "RoleChange",
    "RoleChanges",
    "SettingsAgreement",
    "StateIsWrongError",
    "TopicLink",
    "TopicPushes",
    "Unavailable",
    "UnknownOutcome",
    "VoterIs",
    "WhenApplied",
    "WriteResult",
    "answered",
]
