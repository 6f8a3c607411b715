"""The controllers: who leads, since when and why, and how the nodes are."""

import msgspec
from msgspec import UNSET, UnsetType

from quorate.model.words import leader_cause
from quorate_spark.dashboard.model import Leader
from quorate_spark.dashboard.panels.view import View
from quorate_spark.dashboard.soft_state import NodeSoft


class NodeRow(msgspec.Struct, frozen=True, kw_only=True):
    """One controller node."""

    id: int
    role: str
    """``leader`` or ``follower`` as the log has it; ``not started`` before its first start."""
    version: str
    started: int | None
    rpc: str
    kafka: str
    http: str
    live: NodeSoft | UnsetType = UNSET


class Quorum(msgspec.Struct, frozen=True, kw_only=True):
    """GET /api/quorum."""

    leader: int | None
    term: int
    since: int | None
    offset: int | None
    previous: int | None
    cause: str
    leaderless_ms: int
    why: str
    """The cause in words, a sentence."""
    nodes: list[NodeRow]
    may_fail: int
    """So many nodes, and the others are a majority still."""


def quorum(view: View) -> Quorum:
    """As of the view."""
    leader = view.state.leader
    leads = leader.node_id if leader else None
    soft = view.soft.nodes if view.soft else {}
    nodes = [
        NodeRow(
            id=number,
            role="leader" if number == leads else "follower" if node.started is not None else "not started",
            version=node.version,
            started=node.started,
            rpc=node.addresses.rpc,
            kafka=node.addresses.kafka,
            http=node.addresses.http,
            live=soft.get(number, UNSET),
        )
        for number, node in sorted(view.state.nodes.items())
    ]
    return Quorum(
        leader=leads,
        term=view.state.term,
        since=leader.since if leader else None,
        offset=leader.offset if leader else None,
        previous=leader.previous if leader else None,
        cause=leader.cause if leader else "",
        leaderless_ms=leader.silent_for_ms if leader else 0,
        why=_why(leader) if leader else "",
        nodes=nodes,
        may_fail=max(len(nodes) - 1, 0) // 2,
    )


def _why(leader: Leader) -> str:
    cause = leader_cause(leader.cause, leader.previous, leader.silent_for_ms)
    return f"{cause[:1].upper()}{cause[1:]}."
