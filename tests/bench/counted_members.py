"""What a heartbeat of a member costs the leader, with few members and with many, counted as in ``counted``.

Rules: every member beats once in the window that is counted, at the same pace whatever their number, so that what is
done for each member in its time (it is looked at once in its timeout) is counted with its heartbeats. Time at rest is
taken off. From the command to its answer: gRPC is not counted.
"""

from collections.abc import Callable
from functools import partial
from typing import Final

from quorate.controller import Answered, Caller, Outcome
from quorate.metadata.commands import (
    Command,
    HearMember,
    MemberIs,
    RaiseFeatureLevel,
    RecordNodeStart,
    RegisterMember,
)
from tests.bench.counted import AT_ONCE, REST_S, Counted, Table, resting
from tests.sim.nodes import addresses

PER_SECOND: Final = 400
BEATS_PER_TIMEOUT: Final = 3
ME: Final = Caller("bench", "127.0.0.1:1")


class MemberBench:
    """A cluster of level 2, and what is asked of its leader."""

    def __init__(self) -> None:
        self.cluster = Counted()
        for node in self.cluster.served.values():
            start = RecordNodeStart(
                node_id=node.core.node_id,
                dir_uuid=node.directory.incarnation,
                version="bench",
                addresses=addresses(node.core.node_id),
                feature_min=1,
                feature_max=2,
            )
            self.all_done([start])
        self.all_done([RaiseFeatureLevel(level=2)])

    def ask(self, command: Command, done: Callable[[Outcome], None]) -> None:
        """As a gateway does it."""
        self.cluster.leader.core.controller.submit(command, ME, done)

    def all_done(self, commands: list[Command]) -> list[Answered]:
        """Some at a time; each must be answered."""
        found: list[Answered] = []

        def done(outcome: Outcome) -> None:
            assert isinstance(outcome, Answered), outcome
            found.append(outcome)

        def answered(count: int) -> bool:
            return len(found) == count

        for start in range(0, len(commands), AT_ONCE):
            some = commands[start : start + AT_ONCE]
            for command in some:
                self.cluster.leader.loop.io(partial(self.ask, command, done))
            self.cluster.until(partial(answered, start + len(some)))
        return found

    def registered(self, count: int, timeout_s: float) -> list[HearMember]:
        """Members that have caught up; the heartbeat of each."""
        beats: list[HearMember] = []
        for number in range(count):
            name = f"member.{number}"
            command = RegisterMember(name=name, incarnation="1", timeout_ms=int(timeout_s * 1000), labels={"rack": "a"})
            (answer,) = self.all_done([command])
            assert isinstance(answer.reply, MemberIs)
            epoch = answer.reply.registered_epoch(answer.offset)
            beats.append(HearMember(name=name, epoch=epoch, applied_revision=epoch))
        self.all_done(list(beats))
        return beats

    def spread(self, beats: list[HearMember]) -> list[Answered]:
        """Each once, at an even pace; and what they were answered."""
        found: list[Answered] = []

        def done(outcome: Outcome) -> None:
            assert isinstance(outcome, Answered), outcome
            found.append(outcome)

        loop = self.cluster.leader.loop
        for number, beat in enumerate(beats):
            heard = partial(loop.io, partial(self.ask, beat, done))
            self.cluster.world.after(number / PER_SECOND, heard)
        self.cluster.run(len(beats) / PER_SECOND)
        return found


def member_beats(members: int) -> Table:
    """Of so many."""
    window_s = members / PER_SECOND
    bench = MemberBench()
    rest = resting(bench.cluster)
    beats = bench.registered(members, BEATS_PER_TIMEOUT * window_s)
    bench.spread(beats)
    with bench.cluster.metered() as found:
        answers = bench.spread(beats)
    assert len(answers) >= members - 1, "all but the last have been answered"
    assert not any(isinstance(one.reply, MemberIs) and one.reply.fenced for one in answers)
    share = -window_s / REST_S
    return {"member heartbeat: leader": found["leader"].plus(rest["leader"], share).over(members)}
