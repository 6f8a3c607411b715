"""Every kind of row has a bound, and a frame holds the longest: between voters, and to the process that replays."""

from typing import Any, cast

from quorate.consensus.ports import MAX_ENTRY_BYTES, MAX_ROW_BYTES, Index, Term
from quorate.consensus.raft.snapshots import Row, SnapshotSender
from quorate.consensus.settings import PeerSettings, SnapshotSettings
from quorate.consensus.transport import codec
from quorate.consensus.transport.codec import SnapshotBegin, SnapshotChunk
from quorate.controller.settings import COMMAND_BYTES_MAX
from quorate.events import InSyncCopy, NodeAddresses
from quorate.history.replay import framed, told
from quorate.history.settings import HistorySettings
from quorate.metadata.journal import COPIES_MAX
from quorate.metadata.policy import PolicySettings
from quorate.metadata.row_bounds import SCOPE_BYTES_MAX, SET_BYTES_MAX
from quorate.metadata.sessions import IDENTIFIER_MAX, SUBSCRIPTION_BYTES_MAX, SUBSCRIPTIONS_MAX
from quorate.metadata.subjects import VERSIONS_MAX
from quorate.metadata.texts import LONG_MAX
from quorate.model.rows import _TYPES, Entity, encoded
from quorate.model.state import Node, Segment, Session, Subject, SubjectVersion, Subscription

NAME = "x" * PolicySettings().name_length_max
LEFT_OUT = 1024
"""More than names of fields and numbers take in a row that one event says whole: an entry says it without them."""
REBUILDS = 10_000
"""Of one node: an operator asks for each of them."""


def of_an_entry(entry_bytes_max: int, *grown: Entity) -> int:
    """A row that one event says, and that others add to up to this."""
    return entry_bytes_max + LEFT_OUT + sum(len(encoded(one)) for one in grown)


def segment() -> Segment:
    """With all its copies in sync; what its election says came in one entry."""
    names = [f"{number:03d}{NAME}"[: len(NAME)] for number in range(COPIES_MAX)]
    return Segment(
        name=f"{NAME}/{LONG_MAX}", start_offset=LONG_MAX, copies=tuple(names), leader=NAME, member_epoch=LONG_MAX,
        leader_epoch=LONG_MAX, in_sync=tuple(InSyncCopy(member=one, member_epoch=LONG_MAX) for one in names),
    )  # fmt: skip


def session() -> Session:
    """With all its subscriptions; its client and its will came in one entry."""
    length = SUBSCRIPTION_BYTES_MAX // SUBSCRIPTIONS_MAX
    one = Subscription(
        filter="x" * length, qos=2, no_local=True, retain_as_published=True, retain_handling=2,
        identifier=IDENTIFIER_MAX,
    )  # fmt: skip
    return Session(
        client="", member="", member_epoch=1, session_epoch=1, opened_ms=1, expiry_s=1,
        subscriptions=(one,) * SUBSCRIPTIONS_MAX,
    )  # fmt: skip


def bounds() -> dict[str, int]:
    """Of each kind of row the most bytes: what one event says whole is as long as its entry, or a little longer."""
    versions = [SubjectVersion(version=LONG_MAX, schema_id=LONG_MAX, deleted=True)] * VERSIONS_MAX
    where = NodeAddresses(rpc=NAME, raft=NAME, kafka=NAME, http=NAME)
    node = Node(
        node_id=1, dir_uuid="", version="", addresses=where, feature_min=1, feature_max=1, started_ms=1,
        former=("x" * 36,) * REBUILDS,
    )  # fmt: skip
    whole = of_an_entry(MAX_ENTRY_BYTES)
    said_whole = ("cluster", "feature-level", "leader", "topic", "key", "lease", "member", "schema", "shard",
                  "session-owner", "will")  # fmt: skip
    return {
        **dict.fromkeys(said_whole, whole),
        "node": of_an_entry(COMMAND_BYTES_MAX, node),
        # An election's sentence came in one entry; beside it there are numbers, of each broker a few.
        "broker-set": SET_BYTES_MAX + of_an_entry(COMMAND_BYTES_MAX) + 64 * PolicySettings().replicas_max,
        "config": SCOPE_BYTES_MAX,
        "subject": len(encoded(Subject(subject=NAME * 4, versions=tuple(versions)))),
        "segment": of_an_entry(MAX_ENTRY_BYTES, segment()),
        "session": of_an_entry(MAX_ENTRY_BYTES, session()),
    }


def test_every_kind_of_row_has_a_bound() -> None:
    """A new kind is found here: it says how long its rows get."""
    found = bounds()
    assert found.keys() == _TYPES.keys()
    assert max(found.values()) < MAX_ROW_BYTES


def test_a_frame_holds_the_longest_row() -> None:
    """Behind a chunk that is nearly full, or a message that is: neither link ends over it."""
    settings, name = SnapshotSettings(), b"config/" + NAME.encode()
    begin = SnapshotBegin(Term(1), 1, Index(1), Term(1), 0, 0)
    short = [("rows", b"config/%06d" % number, bytes(8)) for number in range(settings.chunk_bytes // 21)]
    longest = bytes(MAX_ROW_BYTES)
    read = cast("list[Row]", [*short, ("rows", name, longest), *short])
    nobody: Any = None
    sender = SnapshotSender(begin, read, nobody, nobody, nobody, settings, 0.0)
    sizes = [
        len(codec.encode(SnapshotChunk(Term(1), 1, 0, kind, last=False, payload=payload)))
        for kind, payload in sender._payloads(iter(()))
    ]
    assert MAX_ROW_BYTES < max(sizes) <= PeerSettings().frame_bytes_max
    pairs = [(b"1", bytes(30_000))] * 34
    frames = [framed(message) for message in told([*pairs, (name, longest), *pairs])]
    assert MAX_ROW_BYTES < max(map(len, frames)) <= HistorySettings().frame_bytes_max
