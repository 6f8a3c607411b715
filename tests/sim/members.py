"""Members: each registers, catches up, beats through any node; it hangs, dies and comes back as another, or leaves.

Rules: a member knows what a client knows: what it was answered, or nothing. It counts from when it asked, for the
leader counts from when it heard. Chance is of a seed of its own: a seed without members is what it was.

Theory: what a member is told and what the log says are compared, event by event and answer by answer. By the log a name
has one unfenced incarnation at most; nothing is written about another epoch than the last; an answer to an epoch is
true at its offset, so whoever was replaced is never told that he is there. And by the clock: who was answered is not
fenced within his timeout from asking, whoever leads by then; who is silent is fenced at last.
"""

from collections.abc import Callable
from functools import partial
from random import Random
from typing import Final

from quorate.events import (
    Event,
    MemberAmended,
    MemberDraining,
    MemberFenced,
    MemberGone,
    MemberRegistered,
    MemberUnfenced,
)
from quorate.metadata.commands import Command, HearMember, RegisterMember, UnregisterMember
from tests.sim.clients import Answer, Done, Result, Service
from tests.sim.cluster import Cluster
from tests.sim.holders import FAST
from tests.sim.nodes import CoreNode
from tests.sim.world import ViolationError

ALIVE: Final = "a member that is heard is not fenced"
ONE: Final = "a name has one living incarnation, and its last epoch alone is written about"
TRUE: Final = "what a member is told is true at its offset"
SHARE: Final = 0.4
"""Of seeds with members."""
TIMEOUT_S: Final = 0.6


class Told:
    """What the log says of one name."""

    def __init__(self) -> None:
        self.epoch = 0
        """0: there is nobody."""
        self.incarnation = ""
        self.fenced = True
        self.since: list[tuple[int, int, bool]] = []
        """From which offset on it was so: epoch, fenced."""

    def at(self, offset: int) -> tuple[int, bool]:
        """Epoch and fenced after the events before an offset."""
        return next(((epoch, fenced) for start, epoch, fenced in reversed(self.since) if start < offset), (0, True))


class Member:
    """One name, and one life after the other."""

    def __init__(self, members: "Members", name: str) -> None:
        self._members, self._name = members, name
        self._random = members.random
        self._lives = 0
        self.epoch = 0
        self.heard_s = 0.0
        """When the last heartbeat that was answered was sent."""
        self._former: list[int] = []

    def begin(self) -> None:
        """Another life. Whoever it was before may still be there, and not know."""
        if self.epoch:
            self._former.append(self.epoch)
        self._lives += 1
        self.epoch, self.heard_s = 0, 0.0
        now = self._members.cluster.world.now
        self._ends_s = now + 0.5 + self._random.random() * 2.5
        self._ending = self._random.choice(("dies", "hangs", "leaves"))

    def step(self) -> None:
        """What it does now; and again soon."""
        members = self._members
        if members.stopped:
            return
        now = members.cluster.world.now
        if not self.epoch:
            self._register()
        elif now < self._ends_s:
            self._beat()
        elif self._ending == "leaves":
            members.ask(UnregisterMember(name=self._name, epoch=self.epoch), self._left)
        elif self._ending == "dies" or now > self._ends_s + 2 * TIMEOUT_S:
            if self._ending == "hangs" and self._random.random() < 0.5:
                self._ends_s = now + TIMEOUT_S  # It wakes up, and goes on as if nothing had been.
                self._ending = "dies"
            else:
                self.begin()
        if self._former and self._random.random() < 0.2:
            stale = self._random.choice(self._former)
            self._ask_of(stale, want_drain=True)
        members.cluster.world.after(TIMEOUT_S / 4 * (0.4 + self._random.random() * 0.6), self.step)

    def _register(self) -> None:
        life = self._lives
        command = RegisterMember(
            name=self._name,
            incarnation=str(life),
            timeout_ms=int(TIMEOUT_S * 1000),
            labels={"at": str(self._random.randrange(2))},
        )
        self._members.ask(command, lambda _, result: self._registered(life, result))

    def _registered(self, life: int, result: Result) -> None:
        if not isinstance(result, Done) or result.value is None:
            return
        epoch = int(result.value.split()[0])
        told = self._members.told[self._name]
        if told.at(result.offset)[0] != epoch:
            raise ViolationError(TRUE, f"{self._name}: registered as {epoch}, the log has {told.since} at {result}")
        if life == self._lives:
            self.epoch = epoch

    def _beat(self) -> None:
        self._ask_of(self.epoch, want_drain=self._ending == "leaves" and self._random.random() < 0.3)

    def _ask_of(self, epoch: int, *, want_drain: bool) -> None:
        knows = epoch - (self._random.random() < 0.2)
        command = HearMember(name=self._name, epoch=epoch, applied_revision=knows, want_drain=want_drain)
        self._members.ask(command, partial(self._answered, epoch))

    def _answered(self, epoch: int, asked_s: float, result: Result) -> None:
        if not isinstance(result, Done) or result.value is None:
            return
        _, fenced = result.value.split()
        found = self._members.told[self._name].at(result.offset)
        if found != (epoch, fenced == "fenced"):
            raise ViolationError(TRUE, f"{self._name} of {epoch} was told {result}; the log has {found} there")
        self._members.cluster.counts["members heard"] += 1
        if epoch == self.epoch:
            self.heard_s = max(self.heard_s, asked_s)
        else:
            self._members.cluster.counts["members heard of before"] += 1

    def _left(self, asked_s: float, result: Result) -> None:
        if isinstance(result, Done):
            self.begin()


class Members:
    """All of them, and what the log says of them."""

    def __init__(self, cluster: Cluster, seed: int) -> None:
        self.cluster = cluster
        self.random = Random(f"members of {seed}")
        count = self.random.choice((1, 2, 4)) if self.random.random() < SHARE else 0
        self.told = {f"m{number}": Told() for number in range(count)}
        self._members = {name: Member(self, name) for name in self.told}
        self._offset = 0
        self._asked = 0
        self.stopped = False

    def start(self) -> None:
        """Begin."""
        for member in self._members.values():
            member.begin()
            self.cluster.world.after(self.random.random(), member.step)

    def stop(self) -> None:
        """All fall silent for good."""
        self.stopped = True

    @property
    def settled(self) -> bool:
        """Is everybody fenced, or gone?"""
        return all(told.fenced for told in self.told.values())

    def ask(self, command: Command, told: Callable[[float, Result], None]) -> None:
        """Through any node."""
        self._asked += 1
        tag = f"member-{self._asked}"

        def call(service: Service, done: Answer) -> None:
            assert isinstance(service, CoreNode)
            service.submit(command, tag, "", done)

        node = self.random.choice(self.cluster.voters)
        self.cluster.ask(node, call, partial(told, self.cluster.world.now), "member")

    def committed(self, event: Event) -> None:
        """The next event of the log. Raises ViolationError."""
        offset, self._offset = self._offset, self._offset + 1
        if getattr(event, "member", "") not in self.told:  # Another's (``stores``).
            return
        match event:
            case (
                MemberRegistered()
                | MemberAmended()
                | MemberUnfenced()
                | MemberFenced()
                | MemberDraining()
                | MemberGone()
            ) if event.member not in self.told:  # Others have members too (mqtt.py).
                return
            case MemberRegistered():
                told = self.told[event.member]
                if not told.fenced or event.replaced_epoch != told.epoch:
                    raise ViolationError(ONE, f"{event} at {offset}, while {told.epoch} is not fenced or another")
                told.epoch, told.incarnation, told.fenced = offset, event.incarnation, True
            case MemberAmended() | MemberUnfenced() | MemberFenced() | MemberDraining() | MemberGone():
                told = self.told[event.member]
                if event.epoch != told.epoch:
                    raise ViolationError(ONE, f"{event} at {offset}, where the epoch is {told.epoch}")
                self._changed(event, told)
            case _:
                return
        told.since.append((offset, told.epoch, told.fenced))

    def _changed(self, event: Event, told: Told) -> None:
        match event:
            case MemberUnfenced():
                if event.applied_revision < event.epoch:
                    raise ViolationError(ONE, f"{event}: it has not caught up")
                told.fenced = False
            case MemberFenced():
                self._fenced(event)
                told.fenced = True
            case MemberGone():
                told.epoch, told.fenced = 0, True
            case _:
                pass

    def _fenced(self, event: MemberFenced) -> None:
        self.cluster.counts["members fenced"] += 1
        member = self._members[event.member]
        since_s = self.cluster.world.now - member.heard_s
        if member.epoch == event.epoch and since_s * FAST < TIMEOUT_S:
            raise ViolationError(ALIVE, f"{event}, {since_s:.3f} s after it was heard")
