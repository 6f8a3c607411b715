"""Brokers of MQTT: members that open sessions for clients, take them from each other, die with them, publish wills.

Rules: a broker knows what it was answered, or nothing; it hears of wills for it when they are committed, as a watch
would tell. Clients go from one broker to the next. Chance is of a seed of its own: a seed without brokers is what it
was.

Theory: what the log says is told again here, plainly, event by event. An opening is by a living member and names the
one before; whatever else is written about a session names its last opening; a loss names all clients that are there; a
session expires at its time of the log and not before, or once its whole time has passed in the world since it was
committed that its client went, for the log's time may stand still; a will is decided once, is handed over then, goes to
living members and is taken from none that lives. An answer to an epoch is true at its offset, so a loser hears that he
lost. Once all are silent, every session ends and no loss is left.
"""

import math
from collections.abc import Callable
from functools import partial
from random import Random
from typing import Final

from quorate.events import (
    Event,
    MemberFenced,
    MemberGone,
    MemberRegistered,
    MemberUnfenced,
    SessionDisconnected,
    SessionEnded,
    SessionOpened,
    SessionOwnerLost,
    SessionOwnerSettled,
    SubscriptionsChanged,
    WillAcknowledged,
    WillDecided,
    WillHandedOver,
)
from quorate.metadata.commands import (
    AcknowledgeWill,
    CloseSession,
    Command,
    HearMember,
    OpenSession,
    PutSubscriptions,
    RegisterMember,
)
from quorate.model.state import Subscription, Will
from tests.sim.clients import Answer, Done, Result, Service
from tests.sim.cluster import Cluster
from tests.sim.nodes import CoreNode
from tests.sim.world import ViolationError

OWNER: Final = "a session has one owner in each epoch, and its last epoch alone is written about"
ANSWERED: Final = "what a broker is told of a session is true at its offset"
LOST: Final = "a lost member's clients are gone since its loss"
EXPIRY: Final = "a session ends in its time of the log, and not before"
WILL_ONCE: Final = "a will is decided once, and goes from one living member to the next"
SHARE: Final = 0.4
"""Of seeds with brokers of MQTT."""
TIMEOUT_S: Final = 0.6
CLIENTS: Final = 6


class _Session:
    """What the log says of one."""

    def __init__(self, event: SessionOpened, epoch: int) -> None:
        self.member_epoch, self.epoch, self.expiry_s = event.member_epoch, epoch, event.expiry_s
        self.gone_ms = 0
        self.seen = math.inf
        """When it was first committed that its client is gone."""


class Broker:
    """One member, and one life after the other."""

    def __init__(self, brokers: "Brokers", name: str) -> None:
        self._brokers, self._name = brokers, name
        self._random = brokers.random
        self._lives = 0
        self.epoch = 0
        self._opened: list[tuple[str, int]] = []
        """Clients that came, with their session epochs; some were taken from it since."""

    def begin(self) -> None:
        """Another life, without clients."""
        self._lives += 1
        self.epoch = 0
        self._opened = self._opened[-3:]
        self._ends_s = self._brokers.cluster.world.now + 0.5 + self._random.random() * 2.0

    def step(self) -> None:
        """What it does now; and again soon."""
        brokers, now = self._brokers, self._brokers.cluster.world.now
        if brokers.stopped:
            return
        if not self.epoch:
            register = RegisterMember(
                name=self._name, incarnation=str(self._lives), timeout_ms=int(TIMEOUT_S * 1000), roles=("mqtt",)
            )
            brokers.ask(register, partial(self._registered, self._lives))
        elif now < self._ends_s:
            beat = HearMember(name=self._name, epoch=self.epoch, applied_revision=self.epoch)
            brokers.ask(beat, self._nothing)
            self._serve()
        elif now > self._ends_s + TIMEOUT_S * self._random.choice((0.5, 2.0)):
            self.begin()
        brokers.cluster.world.after(TIMEOUT_S / 4 * (0.4 + self._random.random() * 0.6), self.step)

    def _registered(self, life: int, result: Result) -> None:
        if isinstance(result, Done) and result.value is not None and life == self._lives:
            self.epoch = int(result.value.split()[0])

    def _nothing(self, result: Result) -> None:
        """Whatever became of it."""

    def _serve(self) -> None:
        """Something a client does here; or something late, of a client that may be elsewhere."""
        random = self._random
        if not self._opened or random.random() < 0.5:
            client = f"c{random.randrange(CLIENTS)}"
            will = Will(topic="gone", payload=client.encode(), delay_s=random.choice((0, 0, 1)))
            opening = OpenSession(
                client=client,
                clean_start=random.random() < 0.2,
                expiry_s=random.choice((1, 1, 2)),
                member=self._name,
                member_epoch=self.epoch,
                will=will if random.random() < 0.6 else None,
            )
            self._brokers.ask(opening, partial(self._is_open, client))
            return
        client, epoch = random.choice(self._opened)
        if random.random() < 0.5:
            put = PutSubscriptions(
                client=client, session_epoch=epoch, added=(Subscription(filter="t/#", qos=random.randrange(3)),)
            )
            self._brokers.ask(put, partial(self._was_current, client, epoch))
        else:
            close = CloseSession(client=client, session_epoch=epoch, with_will=random.random() < 0.7)
            self._brokers.ask(close, partial(self._was_current, client, epoch))

    def _is_open(self, client: str, result: Result) -> None:
        if isinstance(result, Done) and result.value is not None:
            epoch = int(result.value)
            if self._brokers.epoch_at(client, result.offset) != epoch:
                raise ViolationError(ANSWERED, f"{client} was opened as {epoch} at {result}; the log has another")
            self._opened.append((client, epoch))
            self._brokers.cluster.counts["sessions opened"] += 1

    def _was_current(self, client: str, epoch: int, result: Result) -> None:
        if isinstance(result, Done) and self._brokers.epoch_at(client, result.offset) != epoch:
            found = self._brokers.epoch_at(client, result.offset)
            raise ViolationError(ANSWERED, f"{client} of {epoch} was changed at {result}; the log has {found} there")

    def publish(self, will: int) -> None:
        """A will is for this broker: it publishes, and says so."""
        world, life = self._brokers.cluster.world, self._lives

        def published() -> None:
            if life == self._lives and not self._brokers.stopped and world.now < self._ends_s:
                acknowledge = AcknowledgeWill(will=will, member=self._name, member_epoch=self.epoch)
                self._brokers.ask(acknowledge, self._nothing)

        world.after(self._random.random() * 0.3, published)


class Brokers:
    """All of them, and what the log says of them. ``log_ms``: the time of the event that is committed."""

    def __init__(self, cluster: Cluster, seed: int, log_ms: Callable[[], int]) -> None:
        self.cluster, self._log_ms = cluster, log_ms
        self.random = Random(f"brokers of mqtt of {seed}")
        count = self.random.choice((2, 3)) if seed and self.random.random() < SHARE else 0
        self._brokers = {f"mqtt{number}": Broker(self, f"mqtt{number}") for number in range(count)}
        self._living: dict[str, int] = {}
        """Name → epoch of those that are not fenced."""
        self._lost: dict[int, int] = {}
        """Member epoch → since when."""
        self._lost_at: dict[int, float] = {}
        """Member epoch → when the last loss was first committed, in the world's time."""
        self._settled: dict[int, int] = {}
        """The same of losses that are settled: the last session may end behind that, in the same decision."""
        self._sessions: dict[str, _Session] = {}
        self._epochs: dict[str, list[tuple[int, int]]] = {}
        """Of each client: from which offset on its session epoch was so; 0: it has none."""
        self._decided: set[int] = set()
        self._expected: Event | None = None
        """A fence, behind which a loss must be told."""
        self._wills: dict[int, tuple[str, int]] = {}
        """Decided and not acknowledged: who is to publish it, and his epoch."""
        self._due: int | None = None
        """A will that was decided, and must be handed over by the next event."""
        self._offset = self._asked = 0
        self.stopped = False

    def start(self) -> None:
        """Begin."""
        for broker in self._brokers.values():
            broker.begin()
            self.cluster.world.after(self.random.random(), broker.step)

    def stop(self) -> None:
        """All fall silent for good."""
        self.stopped = True

    @property
    def settled(self) -> bool:
        """Has every session ended, is no loss left, and is no will with a member that is none?"""
        held = all(not name for name, _ in self._wills.values())
        silent = self._brokers.keys().isdisjoint(self._living)  # Members of other kinds live on.
        return not self._sessions and not self._lost and silent and held

    def ask(self, command: Command, told: Callable[[Result], None]) -> None:
        """Through any node."""
        self._asked += 1
        tag = f"mqtt-{self._asked}"

        def call(service: Service, done: Answer) -> None:
            assert isinstance(service, CoreNode)
            service.submit(command, tag, "", done)

        self.cluster.ask(self.random.choice(self.cluster.voters), call, told, "mqtt")

    def epoch_at(self, client: str, offset: int) -> int:
        """The session epoch after the events before an offset; 0: there is none."""
        return next((epoch for start, epoch in reversed(self._epochs.get(client, [])) if start < offset), 0)

    # -- the log, told again

    def committed(self, event: Event) -> None:
        """The next event. Raises ViolationError."""
        offset, self._offset = self._offset, self._offset + 1
        self._follows(event)
        match event:
            case MemberRegistered() | MemberUnfenced() | MemberFenced() | MemberGone():
                self._of_member(event)
            case SessionOpened():
                self._is_opened(event, offset)
            case SubscriptionsChanged() | SessionDisconnected() | SessionEnded() | WillDecided():
                self._of_session(event, offset)
            case SessionOwnerLost():
                self._lost[event.member_epoch] = self._log_ms()
                self._lost_at[event.member_epoch] = self.cluster.world.now
                self.cluster.counts["members lost with clients"] += 1
            case SessionOwnerSettled():
                if event.member_epoch not in self._lost:
                    raise ViolationError(LOST, f"{event}, of which no loss was told")
                since_ms = self._lost.pop(event.member_epoch)
                if event.reason != "unfenced":
                    self._settled[event.member_epoch] = since_ms
            case WillHandedOver():
                self._handed(event)
            case WillAcknowledged():
                if self._wills.pop(event.session_epoch, None) != (event.member, event.member_epoch):
                    raise ViolationError(WILL_ONCE, f"{event}: it was another's, or nobody's")
                self.cluster.counts["wills published"] += 1
            case _:
                pass

    def _follows(self, event: Event) -> None:
        """What the event before asks of this one."""
        expected, self._expected = self._expected, None
        due, self._due = self._due, None
        if isinstance(expected, MemberFenced | MemberGone):
            clients = self._clients_of(expected.epoch)
            told = isinstance(event, SessionOwnerLost) and event.member_epoch == expected.epoch
            if told != bool(clients) or (isinstance(event, SessionOwnerLost) and event.sessions != len(clients)):
                raise ViolationError(LOST, f"{expected} is followed by {event}; its clients were {clients}")
        elif isinstance(event, SessionOwnerLost):
            raise ViolationError(LOST, f"{event}, and nobody was lost")
        if due is not None and not (isinstance(event, WillHandedOver) and event.session_epoch == due):
            raise ViolationError(WILL_ONCE, f"the will {due} was decided, and then came {event}")

    def _clients_of(self, member_epoch: int) -> list[str]:
        if member_epoch in self._lost:
            return []
        return [name for name, one in self._sessions.items() if one.member_epoch == member_epoch and not one.gone_ms]

    def _of_member(self, event: MemberRegistered | MemberUnfenced | MemberFenced | MemberGone) -> None:
        if isinstance(event, MemberUnfenced):
            self._living[event.member] = event.epoch
        else:
            self._living.pop(event.member, None)
            if not isinstance(event, MemberRegistered):
                self._expected = event

    def _is_opened(self, event: SessionOpened, offset: int) -> None:
        before = self._sessions.get(event.client)
        if self._living.get(event.member) != event.member_epoch:
            raise ViolationError(OWNER, f"{event} at {offset}, by a member that is {self._living}")
        if event.replaced_epoch != (0 if before is None else before.epoch):
            raise ViolationError(OWNER, f"{event} at {offset} replaces another opening than the last")
        self.cluster.counts["sessions taken over"] += bool(event.taken_over_from)
        self._sessions[event.client] = _Session(event, offset)
        self._epochs.setdefault(event.client, []).append((offset, offset))

    def _of_session(
        self, event: SubscriptionsChanged | SessionDisconnected | SessionEnded | WillDecided, offset: int
    ) -> None:
        session = self._sessions.get(event.client)
        if session is None or session.epoch != event.session_epoch:
            raise ViolationError(OWNER, f"{event} at {offset} is not about the last opening")
        match event:
            case SessionDisconnected():
                if not session.gone_ms:  # One that is gone stays gone since then.
                    session.seen = self._lost_at.get(session.member_epoch, self.cluster.world.now)
                session.gone_ms, session.expiry_s = event.disconnected_ms, event.expiry_s
            case WillDecided():
                if event.session_epoch in self._decided:
                    raise ViolationError(WILL_ONCE, f"{event}, a second time")
                self._decided.add(event.session_epoch)
                self._due = event.session_epoch
            case SessionEnded():
                self._ended(event, session, offset)
            case _:
                pass

    def _ended(self, event: SessionEnded, session: _Session, offset: int) -> None:
        del self._sessions[event.client]
        self._epochs[event.client].append((offset, 0))
        since_ms = session.gone_ms or (self._settled | self._lost).get(session.member_epoch, 0)
        seen = session.seen if session.gone_ms else self._lost_at.get(session.member_epoch, math.inf)
        waited = self.cluster.world.now - seen >= session.expiry_s * 0.95  # Of a node whose clock runs that fast.
        if event.reason == "expired":
            self.cluster.counts["sessions expired"] += 1
            due = waited or self._log_ms() >= since_ms + session.expiry_s * 1000
            if not since_ms or since_ms != event.disconnected_ms or not due:
                raise ViolationError(EXPIRY, f"{event} at {self._log_ms()}, gone since {since_ms}")

    def _handed(self, event: WillHandedOver) -> None:
        before = self._wills.get(event.session_epoch)
        if before is None and event.session_epoch not in self._decided:
            raise ViolationError(WILL_ONCE, f"{event}, which was not decided, or is published")
        if before is not None and before[0] and self._living.get(before[0]) == before[1]:
            raise ViolationError(WILL_ONCE, f"{event} is taken from one that lives")
        if event.member and self._living.get(event.member) != event.member_epoch:
            raise ViolationError(WILL_ONCE, f"{event} is given to one that does not live")
        self._wills[event.session_epoch] = (event.member, event.member_epoch)
        self.cluster.counts["wills handed on"] += before is not None
        broker = self._brokers.get(event.member)
        if broker is not None:
            broker.publish(event.session_epoch)
