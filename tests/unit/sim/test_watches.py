"""What is looked at when a watch tells something."""

import pytest

from quorate.events import Event, KeyDeleted, KeyPut, LeaseEnded, Stamp
from quorate.gateway.grpc.pb import kv_pb2, rpc_pb2
from tests.sim.watches import WATCHED, Watch, Written
from tests.sim.world import ViolationError

ALL_KEYS, ONE_PART = 1, 2


def put(name: str, value: bytes = b"v") -> Event:
    return KeyPut(key=name, value=value, lease=0, following=0)


def written(*entries: tuple[Event, ...]) -> Written:
    """Each entry one decision."""
    found, offset = Written(), 0
    for entry in entries:
        events = []
        for event in entry:
            events.append((Stamp(offset=offset, term=1, time_ms=0, principal="", cause="", request_id=""), event))
            offset += 1
        found.committed(events)
    return found


def told(name: bytes, revision: int, *, before: bytes | None = None, created: int | None = None) -> kv_pb2.Event:
    kv = kv_pb2.KeyValue(key=name, value=b"v", mod_revision=revision, create_revision=created or revision)
    event = kv_pb2.Event(type=kv_pb2.Event.PUT, kv=kv)
    if before is not None:
        event.prev_kv.CopyFrom(kv_pb2.KeyValue(key=name, value=before))
    return event


def answer(*events: kv_pb2.Event, fragment: bool = False) -> rpc_pb2.WatchResponse:
    return rpc_pb2.WatchResponse(watch_id=ALL_KEYS, events=events, fragment=fragment)


A, B = b"/watched/a/0", b"/watched/b/0"
LOG = (
    (put(A.decode()), put(B.decode())),
    (put(A.decode()),),
    (put(B.decode()),),
)
WHOLE = (told(A, 1), told(B, 1))


def test_what_is_due_may_be_told_in_one_answer_or_in_fragments() -> None:
    """Revisions whole and in order; of a key its value, when it was created, and what was before."""
    watch = Watch(written(*LOG), ALL_KEYS, 1)
    assert watch.hear(answer(WHOLE[0], fragment=True)) == 0
    second = told(A, 2, before=b"v", created=1)
    assert watch.hear(answer(WHOLE[1], second)) == 2
    assert (watch.next, watch.due()) == (3, (3, [(B, b"v", 1, b"v")]))


@pytest.mark.parametrize(
    "answers",
    [
        (answer(told(A, 2, before=b"v", created=1)),),
        (answer(WHOLE[0]),),
        (answer(*WHOLE), answer(*WHOLE)),
        (answer(*reversed(WHOLE)),),
        (answer(told(A, 1, before=b"w"), WHOLE[1]),),
        (answer(*WHOLE), answer(told(B, 3, before=b"v", created=1))),
    ],
    ids=["one missing", "a part", "twice", "another order", "another value before", "one passed over"],
)
def test_anything_else_is_a_violation(answers: tuple[rpc_pb2.WatchResponse, ...]) -> None:
    """Each breaks a word of the promise."""
    watch = Watch(written(*LOG), ALL_KEYS, 1)
    with pytest.raises(ViolationError, match=WATCHED):
        list(map(watch.hear, answers))


def test_a_word_of_progress_must_be_true() -> None:
    """A watch of other keys has heard all that there was; one that is owed something has not."""
    log = written(*LOG)
    part = Watch(log, ONE_PART, 3)
    part.progress(3)
    assert part.next == 4
    with pytest.raises(ViolationError, match="up to 1"):
        Watch(log, ALL_KEYS, 1).progress(1)


def test_the_past_is_what_was_committed_before_an_offset() -> None:
    """Who replays is given the keys of then, with those that went with a lease gone."""
    gone = (
        KeyDeleted(key=A.decode(), lease=0, following=1),
        LeaseEnded(lease=1, reason="revoked", keys=1, silent_ms=0),
    )
    log = written(*LOG, gone)
    assert [sorted(key for key, _ in log.before(offset).keys.items()) for offset in (0, 2, 6)] == [[], [A, B], [B]]
