"""Reads over remoting at a level of the caller's choice: as fresh as asked, stamped, or refused by name."""

import json
from collections.abc import Callable
from typing import Any

import pytest

from quorate.controller.outcomes import Answered, Outcome
from quorate.gateway.fresh import FreshReader
from quorate.gateway.remoting.service import RemotingService
from quorate.gateway.remoting.settings import RemotingSettings
from quorate.history.settings import HistorySettings
from quorate.metadata.commands import BrokerIsRegistered, PutTopic
from quorate.wire.remoting import FrameSplitter, HeaderType, Response, decode_request, decode_response, encode_request
from tests.unit.controller.bench import Bench, Line
from tests.unit.gateway.remoting.test_service import NODES, Peer
from tests.unit.history.kit import Times

READS: dict[int, tuple[dict[str, str], bytes]] = {
    1004: ({"brokerName": "a"}, b""),
    1006: ({}, b'["a"]'),
    1012: ({"clusterName": "c", "brokerName": "a"}, b""),
    351: ({"topic": "t"}, b""),
    21: ({}, b""),
}
"""Every read there is, as a client asks it of a node that has broker set a and topic t."""
TIMEOUT_S = 2.5


class House:
    """A controller on its bench, its past, and its remoting service without sockets."""

    def __init__(self, settings: RemotingSettings | None = None, *, questions_max: int = 32) -> None:
        self.bench = Bench()
        self.times = Times(self.bench, HistorySettings(questions_max=questions_max))
        settings = settings or RemotingSettings(waiting_max=2)
        controller = self.bench.controller
        fresh = FreshReader(
            controller,
            self.times.past,
            self.bench.listeners,
            self.bench.loop,
            timeout_s=settings.read_timeout_s,
            past_timeout_s=settings.read_timeout_s,
            waiting_max=settings.waiting_max,
        )
        self.service = RemotingService(
            controller, fresh, settings, node_id=1, group="g", addresses=NODES, now=self.bench.loop.monotonic
        )
        self.peer = Peer()
        self.bench.open()
        self.bench.broker_set([Line(), Line()])
        self.topic(1)

    @property
    def offset(self) -> int:
        """End of the log."""
        return self.bench.controller.offset

    def topic(self, queues: int) -> int:
        """Create or change topic t; the offset that reflects it."""
        self.bench.done(PutTopic(topic="t", read_queues=queues, write_queues=queues, permission=6))
        return self.offset

    def send(self, code: int, header_type: HeaderType = HeaderType.JSON, **fields: object) -> int:
        """Ask; how many answers there were before."""
        own, body = READS[code]
        text = {**own, **{name: str(value) for name, value in fields.items()}}
        (frame,) = FrameSplitter().feed(encode_request(code, 7, text, body=body, header_type=header_type))
        before = len(self.peer.sent)
        self.service.handle(decode_request(frame), frame, self.peer)
        return before

    def answer(self, number: int = -1) -> Response:
        """One of the answers, as its asker reads it."""
        message = self.peer.sent[number]
        assert message is not None
        (frame,) = FrameSplitter().feed(message.frame(HeaderType.JSON, 7))
        return decode_response(frame)

    def ask(self, code: int, header_type: HeaderType = HeaderType.JSON, **fields: object) -> Response:
        """Ask, and let what must be confirmed be confirmed: exactly one answer."""
        before = self.send(code, header_type, **fields)
        self.bench.settle()
        assert len(self.peer.sent) == before + 1
        return self.answer()


def content(answer: Response) -> Any:
    """What an answer says of the cluster: everything but the stamp and, of topics, the log's own counters."""
    fields = {name: text for name, text in answer.fields.items() if name not in ("offset", "timeMs", "past")}
    body = json.loads(answer.body) if answer.body else {}
    for counters in ("dataVersion", "mappingDataVersion"):
        body.pop(counters, None)
    return answer.code, answer.remark, fields, body


@pytest.mark.parametrize("header_type", HeaderType)
@pytest.mark.parametrize("code", READS)
def test_every_level_answers_as_the_default_does_and_says_its_offset(code: int, header_type: HeaderType) -> None:
    """The same fields and body; a stamp beside them, which nobody gets who did not ask."""
    house = House()
    plain = house.ask(code, header_type)
    assert plain.code == 0
    assert not {"offset", "timeMs", "past"} & plain.fields.keys()
    at = house.offset
    for fields in ({"level": "linearizable"}, {"level": "stale"}, {"level": "at_least", "minOffset": at}):
        found = house.ask(code, header_type, **fields)
        assert content(found) == content(plain)
        assert (found.fields["offset"], found.fields["past"]) == (str(at), "false")
        assert int(found.fields["timeMs"]) == house.bench.machine.time_ms


@pytest.mark.parametrize("code", READS)
def test_the_past_is_what_it_was(code: int) -> None:
    """``at``: what the default answered then, whatever happened since; heartbeats are not of the past."""
    house = House()
    at, then = house.offset, content(house.ask(code))
    house.topic(7)
    house.bench.broker_set([Line(), Line(), Line()], name="c")
    house.bench.in_sync(1, 2)
    found = house.ask(code, at=at)
    house.bench.after(0.1)
    assert (found.fields["offset"], found.fields["past"]) == (str(at), "true")
    said = json.loads(json.dumps(content(found)).replace('"alive": false', '"alive": true'))
    assert said == json.loads(json.dumps(then))
    assert house.ask(code, at=0).code in (0, 17, 2008)


def test_the_past_does_not_spoil_what_brokers_poll() -> None:
    """1004 is answered from kept bytes: those of the present, also after a question about the past."""
    house = House()
    at = house.offset
    before = house.ask(1004)
    house.bench.in_sync(1, 2)
    now = content(house.ask(1004))
    assert content(house.ask(1004, at=at)) == content(before) != now
    assert content(house.ask(1004)) == now


def test_at_least_waits_and_says_in_time_how_far_it_is() -> None:
    """The answer comes when the offset is applied; else code 2 with this node's own end, within the bound."""
    house = House()
    first = house.send(351, level="at_least", minOffset=house.offset + 1)
    house.bench.after(1.0)
    assert len(house.peer.sent) == first
    end = house.topic(9)
    house.bench.settle()
    found = house.answer()
    assert (found.code, found.fields["offset"], json.loads(found.body)["readQueueNums"]) == (0, str(end), 9)
    second = house.send(1004, level="stale", minOffset=end + 1)
    third = house.send(1012, minOffset=end + 5)
    house.bench.settle()
    house.bench.after(TIMEOUT_S - 0.1)
    assert len(house.peer.sent) == second
    house.bench.after(0.2)
    for number in (second, third):
        late = house.answer(number)
        assert (late.code, late.fields) == (2, {"endOffset": str(end)})
        assert (late.remark or "").startswith("behind: ")


@pytest.mark.parametrize("late", [0.1, 0.0])
def test_a_registration_is_answered_in_time_also_where_it_is_not_applied(
    monkeypatch: pytest.MonkeyPatch, late: float
) -> None:
    """1003 with its topology, through a follower that lags: what the decision took of the time is gone. The answer is
    Java's then.
    """
    house, ends = House(), list[Callable[[Outcome], None]]()
    monkeypatch.setattr(house.bench.controller, "submit", lambda _command, _caller, done, **_: ends.append(done))
    fields = {
        "clusterName": "c", "brokerName": "a", "brokerId": "1", "brokerAddress": "127.0.0.1:30001",
        "withTopology": "true",
    }  # fmt: skip
    (frame,) = FrameSplitter().feed(encode_request(1003, 7, fields))
    house.service.handle(decode_request(frame), frame, house.peer)
    house.bench.after(TIMEOUT_S - late)
    (end,) = ends
    end(Answered(BrokerIsRegistered("c", "a", None, None, None, (), 1), house.offset + 1))
    assert house.peer.sent == []
    house.bench.after(late + 0.01)
    answer = house.answer()
    assert (answer.code, "members" in answer.fields) == (0, False)


def test_too_many_that_wait_are_told_to_come_again() -> None:
    """``waiting_max`` is two here: the third is answered with code 2 at once."""
    house = House()
    for _ in range(2):
        house.send(1004, level="stale", minOffset=house.offset + 1)
    refused = house.ask(1004, level="stale", minOffset=house.offset + 1)
    assert (refused.code, refused.remark) == (2, "busy: too many reads wait")


def test_a_follower_without_a_leader_answers_what_needs_none() -> None:
    """Stale reads and the past are its own; linearizable is 2007 in time, and says what would be answered."""
    house = House()
    at = house.offset
    house.bench.engine.lose()
    assert house.ask(351, level="stale").code == 0
    assert house.ask(351, at=at).code == 0
    for fields in ({"level": "linearizable"}, {"level": "linearizable", "minOffset": at}, {"at": at + 1}):
        before = house.send(351, **fields)
        house.bench.after(TIMEOUT_S + 0.2)
        (answer,) = [house.answer(number) for number in range(before, len(house.peer.sent))]
        assert answer.code == 2007
        assert "level=stale" in (answer.remark or "")


def test_javas_way_holds_for_linearizable_reads_alone() -> None:
    """``forward_to_leader=False``: a follower is asked to say what it has, and says it; the rest is 2007."""
    house = House(RemotingSettings(forward_to_leader=False))
    house.bench.engine.lose(2)
    assert house.ask(1004, level="linearizable").code == 2007
    assert house.ask(1004, level="stale").code == 0
    assert house.ask(1004, at=house.offset - 1).code == 0


def test_questions_about_the_past_are_bounded() -> None:
    """One more than may wait is code 2; a replay that takes too long is 2007 within the bound, not when it ends."""
    house = House(questions_max=1)
    house.times.held = True
    first = house.send(351, at=1)
    refused = house.ask(351, at=2)
    assert (refused.code, (refused.remark or "").partition(":")[0]) == (2, "throttled")
    house.bench.after(TIMEOUT_S - 0.1)
    assert len(house.peer.sent) == first + 1
    house.bench.after(0.2)
    late = house.answer()
    assert (late.code, (late.remark or "").partition(":")[0]) == (2007, "unavailable")


@pytest.mark.parametrize(
    ("fields", "named"),
    [
        ({"level": "fresh"}, "level: 'fresh'"),
        ({"level": "at_least"}, "at_least needs min_offset"),
        ({"minOffset": "-1"}, "min_offset: '-1'"),
        ({"minOffset": "many"}, "min_offset: 'many'"),
        ({"at": "1.5"}, "at: '1.5'"),
        ({"at": str(1 << 62)}, "is out of range"),
        ({"at": "1", "level": "stale"}, "at: the past is what it is"),
        ({"at": "99999"}, "beyond_end: the log ends at offset"),
    ],
)
@pytest.mark.parametrize("code", READS)
def test_what_cannot_be_meant_is_refused_by_name(code: int, fields: dict[str, str], named: str) -> None:
    """Code 1 and a remark; never silently another level."""
    answer = House().ask(code, HeaderType.JSON, **fields)
    assert answer.code == 1
    assert named in (answer.remark or "")
