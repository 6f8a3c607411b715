"""What a packet's tag costs between two voters: microseconds of CPU to join, send, cut and hand over, both sides.

Run it: ``python tests/bench/bench_links.py``; ``make bench`` takes a part of it (``links``). A line is measured three
ways in turn: with tags, with tags that are sixteen zeros (the control: the price of the tags alone), and by the framing
that was there before packets. A lone commit is two packets out and two in at its leader, of the first three kinds.
"""

import asyncio
import random
import time
from collections.abc import Callable

from quorate.consensus.ports import Index, NodeId, Term
from quorate.consensus.settings import PeerSettings
from quorate.consensus.transport import codec, packets
from quorate.consensus.transport.codec import Ack, AppendEntries
from quorate.consensus.transport.hello import PeerHandlers, PeerIdentity
from quorate.consensus.transport.packets import LENGTH, TAG_BYTES, Tags
from quorate.consensus.transport.peers import Peers, _Inbound

ROUNDS = 9
CALLS = 2_000
HELLOS = b"one hello", b"and its answer"
ENTRY = bytes(range(256)) + bytes(100)


def append(entries: int) -> bytes:
    """An AppendEntries of so many commits; of none it is a heartbeat."""
    place = Index(1_000_000)
    made = tuple((Index(place + number), Term(7), ENTRY) for number in range(1, entries + 1))
    return codec.encode(AppendEntries(Term(7), 123_456, place, Term(7), place, made))


ACK = codec.encode(Ack(Term(7), 123_456, Index(1_000_001), reset=False, success=True, counts=True))
TURNS = {
    "a heartbeat": [append(0)],
    "an ack": [ACK],
    "one commit": [append(1)],
    "a commit and an ack": [append(1), ACK],
    "64 commits": [append(64)],
    "256 KiB of commits": [append(650)],
}


class NoTags(Tags):
    """As long as a tag, and worth nothing."""

    def next(self, *parts: bytes | bytearray | memoryview) -> bytes:
        return bytes(TAG_BYTES)


class Kernel:
    """A transport that says nothing."""

    def get_extra_info(self, _: str) -> "Kernel":
        return self

    def setsockopt(self, *_: object) -> None:
        pass


def receiver(tags: type[Tags]) -> Callable[[list[bytes]], None]:
    """Both sides of a link in one call: what a turn's frames cost from ``send`` to the handler."""
    handlers = PeerHandlers(frame=lambda *_: None, connected=lambda _: None, disconnected=lambda _: None)
    who = PeerIdentity(cluster_id="c", node_id=NodeId(1), dir_uuid=bytes(16), key=b"key")
    link = _Inbound(Peers(who, {}, PeerSettings(), random.Random(1), handlers, at_turns_end=lambda call: call()))
    link.connection_made(Kernel())  # type: ignore[arg-type]
    link.hello.peer = NodeId(2)
    outgoing = tags(b"key", b"D", *HELLOS)
    link.opened(tags(b"key", b"D", *HELLOS), tags(b"key", b"A", *HELLOS))

    def turn(frames: list[bytes]) -> None:
        link.data_received(packets.pack(outgoing, frames, 1 << 16))

    return turn


def before_packets() -> Callable[[list[bytes]], None]:
    """As links were: a length before each frame, and nothing else."""
    buffer = bytearray()

    def turn(frames: list[bytes]) -> None:
        nonlocal buffer
        buffer += b"".join([part for frame in frames for part in (LENGTH.pack(len(frame)), frame)])
        at, end = 0, len(buffer)
        while end - at >= LENGTH.size:
            (size,) = LENGTH.unpack_from(buffer, at)
            if end - at - LENGTH.size < size:
                break
            start = at + LENGTH.size
            at = start + size
            handle(bytes(buffer[start:at]))
        del buffer[:at]

    def handle(frame: bytes) -> None:
        pass

    return turn


def best_us(ways: list[Callable[[list[bytes]], None]], frames: list[bytes]) -> list[float]:
    """CPU per turn of each way, measured in turn, the best of some rounds."""
    found = [float("inf")] * len(ways)
    for _ in range(ROUNDS):
        for place, way in enumerate(ways):
            began = time.thread_time_ns()
            for _ in range(CALLS):
                way(frames)
            found[place] = min(found[place], (time.thread_time_ns() - began) / CALLS / 1000)
    return found


async def main() -> None:
    """Print the table."""
    ways = [receiver(Tags), receiver(NoTags), before_packets()]
    print(f"{'one turn to one peer':22} {'bytes':>7} {'tags':>8} {'no tags':>8} {'price':>7} {'before':>8}  us")
    for name, frames in TURNS.items():
        tagged, plain, earlier = best_us(ways, frames)
        size = sum(map(len, frames))
        print(f"{name:22} {size:7} {tagged:8.2f} {plain:8.2f} {tagged - plain:7.2f} {earlier:8.2f}")


if __name__ == "__main__":
    asyncio.run(main())
