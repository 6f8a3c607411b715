"""``quorate journal``: shards and segments.

Rules: what there is, is read over HTTP, at any offset; changes, what is asked of the present alone, and watches go over
gRPC. A change is asked for once. ``why`` reads the event that made the leader, from the log.
"""

import sys
from argparse import ArgumentParser, Namespace
from collections.abc import Callable, Iterable, Iterator
from urllib.parse import quote

import grpc

from quorate.cli.client import Node, NodeError, add_node
from quorate.cli.command import DONE, INT_MAX, REFUSED, Command, number
from quorate.cli.facts import facts
from quorate.cli.freshness import add_freshness, asks, pages
from quorate.cli.output import Plain, add_output, columns, show
from quorate.cli.rpc import TIMEOUT_S, channel, until_interrupted
from quorate.errors import UsageError
from quorate.events import CopyCandidate, SegmentCreated, SegmentLeaderElected
from quorate.gateway.grpc.pb import journal_pb2 as pb
from quorate.gateway.grpc.pb.journal_pb2_grpc import JournalStub
from quorate.gateway.http.answers import SegmentItem, ShardAnswer, ShardItem, Shards
from quorate.model.segments import no_name, parsed
from quorate.model.words import plural

SEGMENTS = ("segment", "from", "to", "leader", "epoch", "in sync", "copies")
SHARDS = ("shard", "epoch", "copies", "min in sync", "spread", "segments", "state")
LEVELS = {pb.STORAGE_LEVEL_GREEN: "green", pb.STORAGE_LEVEL_YELLOW: "yellow", pb.STORAGE_LEVEL_RED: "red"}


def _arguments(parser: ArgumentParser) -> None:
    parser.add_argument("action", nargs="?", choices=ACTIONS, default="list", help="default: list")
    parser.add_argument("name", nargs="?", metavar="NAME", help="of a shard; why, elect: of a segment, as orders/3")
    parser.add_argument(
        "--copies", type=number(INT_MAX), default=1, metavar="N", help="create: of each segment (default: 1)"
    )
    parser.add_argument(
        "--min-in-sync", type=number(INT_MAX), default=1, metavar="N", help="create: below it, it is at risk"
    )
    parser.add_argument("--spread", default="", metavar="LABEL", help="create: spread copies over its values")
    require = "create: a label that members need; may be repeated"
    parser.add_argument("--require", action="append", default=[], metavar="LABEL[=VALUE]", help=require)
    fails = "whatif: fails; elect: is to lead; watch: holds a copy; may be repeated for whatif"
    parser.add_argument("--member", action="append", default=[], metavar="NAME", help=fails)
    parser.add_argument("--revision", type=number(), default=0, metavar="N", help="watch: from this revision on")
    add_node(parser)
    add_output(parser)
    add_freshness(parser)


def _run(options: Namespace) -> int:
    if options.action in NAMED and not options.name:
        raise UsageError(f"journal {options.action}: of what?")
    if options.action in UNNAMED and options.name:
        raise UsageError(f"journal {options.action}: takes no name")
    if options.action in READS:
        return READS[options.action](options)
    if asks(options):
        raise UsageError(f"journal {options.action}: how fresh an answer must be is asked of {', '.join(READS)}")
    with channel(options) as made:
        return CALLS[options.action](options, made)


def _list(options: Namespace) -> int:
    shards = [one for page in pages(options, "/v1/shards", Shards, "linearizable") for one in page.shards]
    show([_shard(one) for one in shards], options.output, columns(SHARDS, map(_shard_row, shards)))
    return DONE


def _shard(one: ShardItem) -> Plain:
    return {
        "name": one.shard,
        "epoch": one.epoch,
        "replication": one.replication,
        "min_in_sync": one.min_in_sync,
        "spread": one.spread,
        "require": dict(one.require),
        "deleting": one.deleting,
        "segments": one.segments,
    }


def _shard_row(one: ShardItem) -> tuple[object, ...]:
    state = "is to go" if one.deleting else ""
    return one.shard, one.epoch, one.replication, one.min_in_sync, one.spread, one.segments, state


def _describe(options: Namespace) -> int:
    segments = list(_segments(options, options.name))
    show([_segment(one) for one in segments], options.output, columns(SEGMENTS, map(_segment_row, segments)))
    return DONE


def _segments(options: Namespace, shard: str) -> Iterator[SegmentItem]:
    for page in pages(options, f"/v1/shards/{quote(shard, safe='')}", ShardAnswer, "linearizable"):
        yield from page.segments


def _segment(one: SegmentItem) -> Plain:
    return {
        "name": one.segment,
        "start_offset": one.start_offset,
        "end_offset": one.end_offset,
        "copies": list(one.copies),
        "leader": one.leader,
        "leader_epoch": one.leader_epoch,
        "member_epoch": one.member_epoch,
        "in_sync": [{"member": member, "member_epoch": epoch} for member, epoch in one.in_sync.items()],
        "set_epoch": one.set_epoch,
    }


def _segment_row(one: SegmentItem) -> tuple[object, ...]:
    end = "open" if one.end_offset is None else one.end_offset
    in_sync, copies = ", ".join(one.in_sync), ", ".join(one.copies)
    return one.segment, one.start_offset, end, one.leader, one.leader_epoch, in_sync, copies


def _create(options: Namespace, made: grpc.Channel) -> int:
    labels = [text.partition("=") for text in options.require]
    request = pb.CreateShardRequest(
        shard=options.name,
        replication=options.copies,
        min_in_sync=options.min_in_sync,
        spread=options.spread,
        require={name: value for name, _, value in labels},
    )
    return _answered(options, JournalStub(made).CreateShard(request, timeout=TIMEOUT_S))


def _elect(options: Namespace, made: grpc.Channel) -> int:
    request = pb.ElectLeaderRequest(segment=options.name, member=next(iter(options.member), ""))
    return _answered(options, JournalStub(made).ElectLeader(request, timeout=TIMEOUT_S))


def _answered(options: Namespace, answer: pb.SegmentResponse) -> int:
    found = answer.segment
    item = SegmentItem(
        segment=found.name,
        start_offset=found.start_offset,
        end_offset=found.end_offset if found.sealed else None,
        copies=tuple(found.copies),
        leader=found.leader.member,
        member_epoch=found.leader.member_epoch,
        leader_epoch=found.leader.leader_epoch,
        in_sync={copy.member: copy.member_epoch for copy in found.in_sync},
        set_epoch=found.set_epoch,
        level="",
        reasons=(),
        why="",
    )
    show(_segment(item), options.output, columns(SEGMENTS, [_segment_row(item)]))
    return DONE


def _delete(options: Namespace, made: grpc.Channel) -> int:
    answer = JournalStub(made).DeleteShard(pb.DeleteShardRequest(shard=options.name), timeout=TIMEOUT_S)
    told: Plain = {"shard": options.name, "epoch": answer.epoch, "revision": answer.revision}
    show(told, options.output, [f"shard {options.name} is to go, and is gone when all its copies are deleted"])
    return DONE


def _health(options: Namespace, made: grpc.Channel) -> int:
    answer = JournalStub(made).Health(pb.StorageHealthRequest(), timeout=TIMEOUT_S)
    risks = [(one.segment, LEVELS.get(one.level, ""), ", ".join(one.reasons)) for one in answer.at_risk]
    figures = ("segments", "leaderless", "below_min_in_sync", "under_replicated", "deleting")
    told: Plain = {
        "level": LEVELS.get(answer.level, ""),
        **{name: getattr(answer, name) for name in figures},
        "at_risk": [{"segment": name, "level": level, "reasons": why} for name, level, why in risks],
    }
    lines = [f"storage is {LEVELS.get(answer.level, '')}: {plural(answer.segments, 'segment')}", ""]
    show(told, options.output, [*lines, *columns(("segment", "level", "why"), risks)] if risks else lines[:1])
    return REFUSED if answer.level == pb.STORAGE_LEVEL_RED else DONE


def _whatif(options: Namespace, made: grpc.Channel) -> int:
    if not options.member:
        raise UsageError("journal whatif: who fails? --member NAME")
    answer = JournalStub(made).WhatIf(pb.JournalWhatIfRequest(members=options.member), timeout=TIMEOUT_S)
    rows = [(one.segment, one.leader, one.would_lead or "nobody", one.explanation) for one in answer.segments]
    told: list[Plain] = [
        {"segment": one.segment, "leader": one.leader, "would_lead": one.would_lead, "explanation": one.explanation}
        for one in answer.segments
    ]
    show(told, options.output, columns(("segment", "leader", "would lead", "why"), rows))
    return DONE if all(one.would_lead for one in answer.segments) else REFUSED


def _why(options: Namespace) -> int:
    """The event whose offset is the leader's epoch made it leader: it began with it, or was elected."""
    named = parsed(options.name)
    if named is None:
        raise NodeError(f"BadSegmentName: {no_name(options.name)}")
    found = [one for one in _segments(options, named[0]) if one.segment == options.name]
    if not found:
        raise NodeError(f"there is no segment {options.name}")
    epoch = found[0].leader_epoch
    event = next(facts(Node(options.node, TIMEOUT_S), epoch, epoch + 1)).event
    header: tuple[str, ...]
    rows: list[tuple[object, ...]]
    match event:
        case SegmentLeaderElected():
            header = ("member", "verdict", "in sync")
            rows = [(one.member, _verdict(one), one.in_sync) for one in event.candidates]
        case SegmentCreated():
            header = ("member", "held before", "led before")
            rows = [(one.member, one.holds, one.leads) for one in event.copies]
        case _:
            raise NodeError(f"the event at {epoch} made nobody leader")
    told: Plain = {"segment": options.name, "leader_epoch": epoch, "explanation": event.explanation}
    show(told, options.output, [event.explanation, "", *columns(header, rows)])
    return DONE


def _verdict(one: CopyCandidate) -> str:
    return f"out: {one.out_by}" if one.out_by else one.verdict


def _watch(options: Namespace, made: grpc.Channel) -> int:
    request = pb.WatchJournalRequest(
        shard=options.name or "", member=next(iter(options.member), ""), start_revision=options.revision
    )
    return until_interrupted(JournalStub(made).Watch(request), lambda answers: _tell(options, answers))


def _tell(options: Namespace, answers: Iterable[pb.WatchJournalResponse]) -> int:
    for answer in answers:
        for change in answer.changes:
            told: Plain = {"revision": answer.revision, "name": change.name, "what": change.what}
            show(told, options.output, [f"{answer.revision}  {change.what}"])
            sys.stdout.flush()
    return DONE


NAMED = ("describe", "create", "delete", "elect", "why")
UNNAMED = ("list", "health", "whatif")
READS: dict[str, Callable[[Namespace], int]] = {"list": _list, "describe": _describe, "why": _why}
CALLS: dict[str, Callable[[Namespace, grpc.Channel], int]] = {
    "create": _create,
    "delete": _delete,
    "elect": _elect,
    "health": _health,
    "whatif": _whatif,
    "watch": _watch,
}
ACTIONS = (*READS, *CALLS)
COMMAND = Command(_arguments, _run)
