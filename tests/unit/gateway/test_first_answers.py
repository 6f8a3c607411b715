"""A repeated request gets its first answer, however long that was."""

from typing import Any

import msgspec
import pytest

from quorate.controller import Answered, Caller, Outcome
from quorate.gateway.first_answers import FirstAnswers
from quorate.gateway.fresh import FreshReader
from quorate.metadata.commands import (
    AnsweredBefore,
    Command,
    DeleteKeys,
    KeyIsPut,
    KeysAreDeleted,
    PutKey,
    RaiseFeatureLevel,
    RecordNodeStart,
    Refusal,
    Transact,
    Transacted,
)
from quorate.metadata.context import Context, Decision
from quorate.metadata.decide import decide
from quorate.metadata.policy import PolicySettings
from quorate.metadata.refusals import refuse
from quorate.model.keys import RangeKeys
from quorate.model.state import State
from tests.unit.controller.bench import ADDRESSES
from tests.unit.history.kit import Times

LONG = b"v" * 3000
ME = Caller("me", "")


class House:
    """A leader with a past, and the way of who may ask again."""

    def __init__(self) -> None:
        self.times = Times()
        self.bench = self.times.bench
        bench = self.bench
        bench.open()
        start = RecordNodeStart(node_id=1, dir_uuid="u", version="1", addresses=ADDRESSES, feature_min=1, feature_max=2)
        bench.done(start)
        bench.done(RaiseFeatureLevel(level=2))
        self.reader = FreshReader(
            bench.controller,
            self.times.past,
            bench.listeners,
            bench.loop,
            timeout_s=1,
            past_timeout_s=1,
            waiting_max=10,
        )
        self.commands = FirstAnswers(bench.controller, self.reader, bench.machine._log, bench.loop, PolicySettings())
        self.now = bench.loop.time_ms()

    def ask(self, command: Command, number: int = 0) -> Answered:
        """Under a request's id of this number."""
        told: list[Outcome] = []
        self.commands.submit(command, ME, told.append, request_id=f"{self.now}-{number}")
        self.bench.settle()
        (outcome,) = told
        assert isinstance(outcome, Answered)
        return outcome


def put(key: bytes, value: bytes = LONG, **how: Any) -> PutKey:
    return PutKey(key=key, value=value, **how)


TRANSACTION = Transact(success=(put(b"c"), RangeKeys(key=b"a", range_end=b"z"), DeleteKeys(key=b"b", previous=True)))


@pytest.mark.parametrize(
    ("command", "kind"),
    [
        (put(b"a", b"new", previous=True), KeyIsPut),
        (DeleteKeys(key=b"a", range_end=b"z", previous=True), KeysAreDeleted),
        (TRANSACTION, Transacted),
    ],
)
def test_a_long_answer_is_given_again(command: Command, kind: type) -> None:
    """To the letter, with its own offset, though everything it speaks of has changed since, twice; it runs once."""
    house = House()
    house.bench.done(put(b"a"))
    house.bench.done(put(b"b"))
    first = house.ask(command)
    assert isinstance(first.reply, kind)
    assert not first.repeated
    house.bench.done(DeleteKeys(key=b"\0", range_end=b"\0"))
    house.bench.done(put(b"a", b"other"))
    end = house.bench.controller.offset
    for _ in range(2):
        again = house.ask(command)
        assert (again.reply, again.offset, again.repeated) == (first.reply, first.offset, True)
    assert house.bench.controller.offset == end


def test_an_answer_that_cannot_be_made_again_says_where_its_events_are() -> None:
    """The past cannot be had in time: what is certain is told."""
    house = House()
    house.bench.done(put(b"a"))
    command = put(b"a", b"new", previous=True)
    first = house.ask(command)
    where = AnsweredBefore(first_offset=first.offset - 1, count=1)
    house.times.held = True
    told: list[Outcome] = []
    house.commands.submit(command, ME, told.append, request_id=f"{house.now}-0")
    house.bench.settle()
    assert told == []
    house.bench.after(1.5)
    assert told == [Answered(where, first.offset, repeated=True)]


@pytest.mark.parametrize("rules", ["refuse", "say something else"])
def test_what_the_rules_would_not_say_again_is_not_told(rules: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Something that nobody keeps had its part in the decision: an answer made again might be wrong."""
    house = House()
    house.bench.done(put(b"a"))
    command = put(b"a", b"new", previous=True)
    first = house.ask(command)

    def decided(state: State, command: Command, context: Context) -> Decision | Refusal:
        decision = decide(state, command, context)
        assert isinstance(decision, Decision)
        other = msgspec.structs.replace(decision, events=decision.events * 2)
        return refuse("NoRoom", "for a test") if rules == "refuse" else other

    monkeypatch.setattr("quorate.gateway.first_answers.decide", decided)
    again = house.ask(command)
    assert again == Answered(AnsweredBefore(first_offset=first.offset - 1, count=1), first.offset, repeated=True)


def test_a_fault_in_making_an_answer_again_keeps_nobody_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is certain is told, and the log has what went wrong."""
    house = House()
    house.bench.done(put(b"a"))
    command = put(b"a", b"new", previous=True)
    first = house.ask(command)

    def decided(state: State, command: Command, context: Context) -> Decision | Refusal:
        raise ValueError("for a test")

    monkeypatch.setattr("quorate.gateway.first_answers.decide", decided)
    told: list[Outcome] = []
    house.commands.submit(command, ME, told.append, request_id=f"{house.now}-0")
    with pytest.raises(ValueError, match="for a test"):
        house.bench.settle()
    assert told == [Answered(AnsweredBefore(first_offset=first.offset - 1, count=1), first.offset, repeated=True)]
