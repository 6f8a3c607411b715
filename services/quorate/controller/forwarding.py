"""Commands that another node must decide: one hop to the leader and back.

Rules: what was forwarded is never forwarded again. A command that left this node and was not answered is *unknown*.
Whatever the leader said about *not* having done it is believed. What is too long for any entry stays here: the link
closes on a frame above its limit, and consensus is on it too.
"""

from collections.abc import Callable

from quorate.controller import messages
from quorate.controller.messages import KIND, ForwardedCommand
from quorate.controller.outcomes import Caller, NotLeader, UnknownOutcome
from quorate.controller.pending import AnyPending, Stage
from quorate.controller.ports import PeerLink
from quorate.errors import UsageError


class Forwarder:
    """Keeps what is under way to the leader."""

    def __init__(
        self,
        link: PeerLink,
        *,
        origin: str,
        forwarded_max: int,
        bytes_max: int,
        settle: Callable[[AnyPending, object], None],
        park: Callable[[AnyPending], None],
        first_id: int,
    ) -> None:
        self._link = link
        self._origin = origin
        self._forwarded_max = forwarded_max
        self._bytes_max = bytes_max
        self._settle = settle
        self._park = park
        self._next_id = first_id
        """Never used by an earlier life of this node, whose answers may still be on their way to it."""
        self._under_way: dict[int, AnyPending] = {}

    def __len__(self) -> int:
        """Requests sent and not yet answered."""
        return len(self._under_way)

    @property
    def full(self) -> bool:
        """One more would be too many."""
        return len(self._under_way) >= self._forwarded_max

    def send(self, leader: int, pending: AnyPending, now: float) -> bool:
        """Try; False = provably not sent. Raises UsageError for a command that cannot be sent at all."""
        number = self._next_id
        patience_ms = max(1, int((pending.deadline - now) * 1000))
        caller = Caller(pending.caller.principal, pending.caller.address, self._origin)
        message = ForwardedCommand(number, patience_ms, caller, pending.cause, pending.request_id, pending.request)
        try:
            payload = messages.encode(message)
        except (OverflowError, ValueError) as error:  # A number of more than 64 bits.
            raise UsageError(f"a command that cannot be sent: {error}") from error
        if len(payload) > self._bytes_max:
            raise UsageError(f"a command of {len(payload)} bytes exceeds the limit of {self._bytes_max}")
        if not self._link.send(leader, KIND, payload):
            return False
        self._next_id += 1
        self._under_way[number] = pending
        pending.stage = Stage.FORWARDED
        pending.peer = leader
        return True

    def answered(self, number: int, outcome: object) -> None:
        """The leader's word; NotLeader means it did nothing, so the request looks for the leader again.

        An answer to a number that is not under way (any more) is dropped: late, or to an earlier life of this node.
        """
        pending = self._under_way.pop(number, None)
        if pending is None or pending.stage is not Stage.FORWARDED:
            return
        if outcome.__class__ is NotLeader:
            self._park(pending)
        else:
            self._settle(pending, outcome)

    def disconnected(self, peer: int) -> None:
        """No answer will come from there in time, or at all."""
        lost = [(number, p) for number, p in self._under_way.items() if p.peer == peer]
        for number, pending in lost:
            del self._under_way[number]
            if pending.stage is Stage.FORWARDED:
                self._settle(pending, UnknownOutcome("the leader it was sent to is gone"))

    def sweep(self, leader: int | None) -> None:
        """Drop what ended by its deadline, and what went to a leader that has been replaced: it will not answer."""
        ended = [number for number, p in self._under_way.items() if p.stage is Stage.ENDED]
        for number in ended:
            del self._under_way[number]
        if leader is not None:
            for peer in {p.peer for p in self._under_way.values()} - {leader}:
                self.disconnected(peer)
