"""``quorate offsets``: how far groups have come in shards, over gRPC.

Rules: names come from whoever reaches a node: eyes see them as ``visible`` shows them. What is said with ``--expect-…``
must be so, or nothing is written (exit 1).
"""

from argparse import ArgumentParser, Namespace
from collections.abc import Callable, Iterator

from quorate.cli.client import add_action
from quorate.cli.command import DONE, REFUSED, Command, number
from quorate.cli.freshness import add_revision
from quorate.cli.output import Plain, columns, show
from quorate.cli.rpc import TIMEOUT_S, channel
from quorate.errors import UsageError
from quorate.gateway.grpc.pb import offsets_pb2 as pb
from quorate.gateway.grpc.pb.offsets_pb2_grpc import OffsetsStub


def _arguments(parser: ArgumentParser) -> None:
    actions = parser.add_subparsers(dest="action", required=True, metavar="list|get|commit|delete")
    listing = add_action(actions, "list", "Every group that has a position.")
    get = add_action(actions, "get", "Where a group is, in all shards or in these; exit 1 when it is nowhere.")
    get.add_argument("group", metavar="GROUP")
    get.add_argument("shards", nargs="*", metavar="SHARD")
    for reading in (listing, get):
        add_revision(reading)
        reading.add_argument("--stale", action="store_true", help="as the asked node has it, without asking the leader")
    commit = add_action(actions, "commit", "A group has come so far; exit 1 when it is not where it was expected.")
    commit.add_argument("group", metavar="GROUP")
    commit.add_argument("shard", metavar="SHARD")
    commit.add_argument("offset", type=number(), metavar="OFFSET")
    expected = commit.add_mutually_exclusive_group()
    expected.add_argument("--expect-offset", type=number(), metavar="N", help="it must be at this offset now")
    expected.add_argument(
        "--expect-revision", type=number(), metavar="N", help="its last commit must be this one; 0: there is none"
    )
    delete = add_action(actions, "delete", "Forget positions of a group; exit 1 when there was none.")
    delete.add_argument("group", metavar="GROUP")
    delete.add_argument("shards", nargs="*", metavar="SHARD")
    delete.add_argument("--all", action="store_true", help="in every shard")


def _run(options: Namespace) -> int:
    run: dict[str, Callable[[Namespace, OffsetsStub], int]] = {
        "list": _list,
        "get": _get,
        "commit": _commit,
        "delete": _delete,
    }
    if options.action == "delete" and bool(options.shards) == options.all:
        raise UsageError("offsets delete: say which shards, or --all")
    with channel(options) as made:
        return run[options.action](options, OffsetsStub(made))


def _list(options: Namespace, stub: OffsetsStub) -> int:
    groups = list(_groups(options, stub))
    told: list[Plain] = [{"group": one.group, "keys": one.keys} for one in groups]
    show(told, options.output, columns(("group", "shards"), [(one.group, one.keys) for one in groups]))
    return DONE


def _groups(options: Namespace, stub: OffsetsStub) -> Iterator[pb.Group]:
    """All of its pages, as of one revision."""
    request, more = pb.ListGroupsRequest(revision=options.revision, stale=options.stale), True
    while more:
        page = stub.ListGroups(request, timeout=TIMEOUT_S)
        yield from page.groups
        more = page.more
        request.revision = request.revision or page.revision
        request.after = page.groups[-1].group if page.groups else ""


def _get(options: Namespace, stub: OffsetsStub) -> int:
    found = list(_positions(options, stub))
    told: list[Plain] = [{"shard": one.shard, "offset": one.offset, "revision": one.revision} for one in found]
    rows = [(one.shard, one.offset, one.revision) for one in found]
    show(told, options.output, columns(("shard", "offset", "revision"), rows))
    return DONE if found else REFUSED


def _positions(options: Namespace, stub: OffsetsStub) -> Iterator[pb.Position]:
    """All of its pages, as of one revision."""
    request = pb.FetchOffsetsRequest(
        group=options.group, shards=options.shards, revision=options.revision, stale=options.stale
    )
    more = True
    while more:
        page = stub.Fetch(request, timeout=TIMEOUT_S)
        yield from page.positions
        more = page.more
        request.revision = request.revision or page.revision
        request.after = page.positions[-1].shard if page.positions else ""


def _commit(options: Namespace, stub: OffsetsStub) -> int:
    position = pb.CommitOffset(shard=options.shard, offset=options.offset)
    if options.expect_offset is not None:
        position.expected_offset = options.expect_offset
    if options.expect_revision is not None:
        position.expected_revision = options.expect_revision
    answer = stub.Commit(pb.CommitOffsetsRequest(group=options.group, positions=[position]), timeout=TIMEOUT_S)
    line = f"{options.group} is at offset {options.offset} in {options.shard}; revision {answer.revision}"
    show({"revision": answer.revision}, options.output, [line])
    return DONE


def _delete(options: Namespace, stub: OffsetsStub) -> int:
    request = pb.DeleteOffsetsRequest(group=options.group, shards=options.shards, all=options.all)
    answer = stub.Delete(request, timeout=TIMEOUT_S)
    told = {"deleted": answer.deleted, "revision": answer.revision}
    show(told, options.output, [f"{answer.deleted} deleted; revision {answer.revision}"])
    return DONE if answer.deleted else REFUSED


COMMAND = Command(_arguments, _run)
