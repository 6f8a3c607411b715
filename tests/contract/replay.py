"""A recorded life of two stock brokers, told again to Quorate: golden/controller-traffic.jsonl, line by line.

Rules: requests are sent in their order, with the recorded bytes but for the addresses; the answer to each is compared
with the recorded one. A recorded answer without a request is a poll whose request was kept only once: it is asked until
it is answered so. What happened between the lines (a broker killed, a controller killed) is in ``EVENTS``. Mapped are
the controllers' addresses and ids, and the brokers' addresses; nothing else.
"""

import contextlib
import json
import re
import socket
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec

from quorate.wire.remoting import FrameSplitter, HeaderType, Message, Response, decode_header
from tests.clusters import free_ports
from tests.contract.cases import settings_shown
from tests.contract.client import Closed, Remoting
from tests.contract.cluster import QuorateCluster
from tests.contract.deviations import differences
from tests.contract.speaker import Answer, Story, shape

TRAFFIC = Path(__file__).parent / "golden" / "controller-traffic.jsonl"
BROKERS = {1: "127.0.0.1:30911", 2: "127.0.0.1:30931"}
CONTROLLERS = ("127.0.0.1:29678", "127.0.0.1:29668", "127.0.0.1:29658")
PATIENCE_S = 15.0
FIRST_LEADER = {"dledger": "29668", "jraft": "29678"}
OF_ONE_NODE = frozenset({1005, 1009, 1010})
"""Requests whose answer is about the very node that is asked."""
SECOND_LEADER = {"dledger": "29678", "jraft": "29668"}

EVENTS: dict[int, tuple[str, ...]] = {
    27: ("kill broker 1",), 48: ("kill the leader",), 52: ("restart the controller",), 64: ("kill broker 1",),
    94: ("kill broker 1",), 120: ("kill the leader",), 123: ("restart the controller",), 130: ("kill broker 1",),
}  # fmt: skip
"""Line → what happens before it; read off the lines' times and answers."""


class Line(msgspec.Struct, frozen=True, kw_only=True):
    """One line of the recording."""

    number: int = -1
    mode: str
    conn: str
    kind: str
    request_code: int
    header: str
    body: str

    @property
    def said(self) -> Any:
        """The header."""
        return json.loads(self.header)

    @property
    def port(self) -> str:
        """The side that listens."""
        return self.conn.partition(">")[2]


def life(mode: str) -> list[Line]:
    """The lines of one mode, in order."""
    lines = TRAFFIC.read_bytes().splitlines()
    found = [msgspec.json.decode(line, type=Line) for line in lines]
    numbered = [msgspec.structs.replace(line, number=number) for number, line in enumerate(found)]
    return [line for line in numbered if line.mode == mode]


class FakeBroker:
    """Listens where a broker would, answers every 1008 with success, and remembers what it was told."""

    def __init__(self) -> None:
        self.told: list[Answer] = []
        self._port = free_ports(1)
        self.address = f"127.0.0.1:{self._port}"
        self._open: list[socket.socket] = []
        self.listen()

    def listen(self) -> None:
        """Be there (again), always at the same address."""
        self._listener = socket.create_server(("127.0.0.1", self._port))
        threading.Thread(target=self._accept, args=(self._listener,), daemon=True).start()

    def _accept(self, listener: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while True:
                peer, _ = listener.accept()
                self._open.append(peer)
                threading.Thread(target=self._serve, args=(peer,), daemon=True).start()

    def _serve(self, peer: socket.socket) -> None:
        splitter = FrameSplitter()
        with peer, contextlib.suppress(OSError):
            while data := peer.recv(1 << 16):
                for frame in splitter.feed(data):
                    header = decode_header(frame)
                    self.told.append(shape(Response(header.code, 0, None, header.fields, frame.body)))
                    peer.sendall(Message(0).frame(HeaderType.JSON, header.opaque))

    def close(self) -> None:
        """Die. (A listener somebody waits on must be shut down: closing alone leaves it listening.)"""
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        for peer in self._open:
            with contextlib.suppress(OSError):
                peer.shutdown(socket.SHUT_RDWR)
            peer.close()


class Life:
    """One replay. ``through_follower``: what was said to the leader is said to a node that follows, where that may not
    make a difference.
    """

    def __init__(
        self, mode: str, cluster: QuorateCluster, header_type: HeaderType, *, through_follower: bool = False
    ) -> None:
        self._header_type = header_type
        self._through_follower = through_follower
        self._lines = life(mode)
        self._mode = mode
        self._cluster = cluster
        self._leader = cluster.leader()
        self._killed: int | None = None
        self._brokers = {number: FakeBroker() for number in BROKERS}
        self._beats: dict[int, Line] = {}
        self._channels: dict[int, dict[str, Remoting]] = {}
        self._polls: dict[int, Line] = {}
        self.java: Story = {}
        self.ours: Story = {}

    def close(self) -> None:
        """End what it opened."""
        for number in tuple(self._channels):
            self._close_channels(number)
        for broker in self._brokers.values():
            broker.close()

    # -- telling

    def tell(self) -> None:
        """All lines; both stories are filled."""
        for line in self._lines:
            for event in EVENTS.get(line.number, ()):
                self._happen(event)
            self._keep_beating()
            if line.kind == "oneway":
                self._told_or_beat(line)
            elif line.kind == "request":
                self._polls[line.request_code] = line
                answer = self._answer_to(line)
                if answer is not None:
                    self._compare_now(line, answer)
                if line.request_code == 1003:
                    self._return(line)
            elif self._request_of(line) is None:
                self._compare_soon(line)

    def _answer_to(self, request: Line) -> Line | None:
        same = (line for line in self._lines if line.kind == "response" and line.conn == request.conn)
        return next((line for line in same if line.said["opaque"] == request.said["opaque"]), None)

    def _request_of(self, answer: Line) -> Line | None:
        same = (line for line in self._lines if line.kind == "request" and line.conn == answer.conn)
        return next((line for line in same if line.said["opaque"] == answer.said["opaque"]), None)

    def _compare_now(self, request: Line, answer: Line) -> None:
        self._keep(answer, self._ask(request, answer.port))

    def _compare_soon(self, answer: Line) -> None:
        """A poll: ask until it is answered as recorded, or patience ends."""
        end = time.monotonic() + PATIENCE_S
        while True:
            response = self._ask(self._polls[answer.request_code], answer.port)
            paths = differences(self._java(self._recorded(answer)), self._ours(shape(response)))
            same = all(path == "fields.peers" for path, _, _ in paths)
            if same or time.monotonic() > end or not _will_be_so(answer):
                self._keep(answer, response)
                return
            time.sleep(0.05)
            self._keep_beating()

    def _keep(self, answer: Line, response: Response) -> None:
        step = f"line {answer.number}, code {answer.request_code}"
        java, ours = self._recorded(answer), shape(response)
        if answer.request_code == 1010:
            java, ours = settings_shown(java["body"]), settings_shown(ours["body"])
        self.java[step], self.ours[step] = self._java(java), self._ours(ours)

    def _recorded(self, answer: Line) -> Answer:
        said = answer.said
        fields = said.get("extFields", {})
        return shape(Response(said["code"], 0, said.get("remark"), fields, answer.body.encode()))

    # -- asking

    def _ask(self, request: Line, port: str) -> Response:
        body = self._here(request.body).encode()
        fields = {name: self._here(value) for name, value in request.said.get("extFields", {}).items()}
        with Remoting(self._address(port, request.request_code), self._header_type) as client:
            return client.ask(request.request_code, body, **fields)

    def _address(self, port: str, code: int) -> str:
        """The node that plays the part of a recorded controller: its leader, or one that follows."""
        leads = FIRST_LEADER if self._killed is None else SECOND_LEADER
        others = [number for number in self._cluster.nodes if number not in (self._leader, self._killed)]
        if port == leads[self._mode]:
            aside = self._through_follower and code not in OF_ONE_NODE
            return str(self._cluster.nodes[others[-1] if aside else self._leader]["rpc"])
        old = FIRST_LEADER[self._mode]
        returned = self._killed is not None and port == old
        return str(self._cluster.nodes[self._killed if returned else others[0]]["rpc"])  # type: ignore[index]

    def _here(self, text: str) -> str:
        for number, address in BROKERS.items():
            text = text.replace(address, self._brokers[number].address)
        return text

    def _java(self, answer: Answer) -> Answer:
        """A recorded answer, its addresses named by their parts. An address of this run that stands there too, by
        chance, is none of this run.
        """
        return {path: self._named(path, text) for path, text in answer.items()}

    def _ours(self, answer: Answer) -> Answer:
        """The same of an answer of this run, which may repeat what a recorded request said."""
        return {path: self._named(path, self._there(text)) for path, text in answer.items()}

    def _there(self, text: str) -> str:
        for number in BROKERS:
            text = text.replace(self._brokers[number].address, f"$broker-{number}")
        for address in self._cluster.addresses:
            text = text.replace(address, "$controller")
        return text

    def _named(self, path: str, text: str) -> str:
        for number, address in BROKERS.items():
            text = text.replace(address, f"$broker-{number}")
        for address in CONTROLLERS:
            text = text.replace(address, "$controller")
        if path == "fields.controllerLeaderId":
            return "$id" if text else text
        if path == "fields.peers":
            return re.sub(r"n\d:", "$id:", text)
        return re.sub(r"127\.0\.0\.1:\d+", "$address", text)

    # -- what happens

    def _happen(self, event: str) -> None:
        if event == "kill broker 1":
            self._beats.pop(1)
            self._brokers[1].close()
            self._close_channels(1)
        elif event == "kill the leader":
            self._killed = self._leader
            self._cluster.kill(self._leader)
            self._leader = self._cluster.leader(without=self._killed)
        else:
            assert self._killed is not None
            self._cluster.restart(self._killed)

    def _return(self, line: Line) -> None:
        """A killed broker registered again: it listens and beats as before."""
        number = int(line.said["extFields"]["brokerId"])
        beats = [one for one in self._lines if one.request_code == 904 and one.number < line.number]
        mine = [one for one in beats if one.said["extFields"]["brokerId"] == str(number)]
        if mine and number not in self._beats:
            self._brokers[number].listen()
            self._beats[number] = mine[0]
            self._keep_beating()

    def _told_or_beat(self, line: Line) -> None:
        if line.request_code == 904:
            self._beats[int(line.said["extFields"]["brokerId"])] = line
            self._keep_beating()
            return
        number = next(number for number, address in BROKERS.items() if address.endswith(line.conn.partition(">")[0]))
        wanted = self._java(shape(Response(1008, 0, None, line.said["extFields"], line.body.encode())))
        end = time.monotonic() + PATIENCE_S
        told: list[Answer] = []
        while wanted not in told and time.monotonic() < end:
            time.sleep(0.02)
            told = [self._ours(answer) for answer in self._brokers[number].told]
        step = f"line {line.number}, code 1008"
        self.java[step] = wanted
        self.ours[step] = wanted if wanted in told else (told[-1] if told else {"told": "nothing"})

    def _keep_beating(self) -> None:
        for number, line in self._beats.items():
            channels = self._channels.setdefault(number, {})
            fields: dict[str, Any] = {name: self._here(value) for name, value in line.said["extFields"].items()}
            for address in self._cluster.addresses:
                try:
                    if address not in channels:
                        channels[address] = Remoting(address, self._header_type)
                        channels[address].ask(904, **fields)  # Heard before the next line is told, as in the recording.
                    channels[address].send(904, oneway=True, **fields)
                except (OSError, Closed):
                    if address in channels:
                        channels.pop(address).close()

    def _close_channels(self, number: int) -> None:
        for channel in self._channels.pop(number, {}).values():
            channel.close()


def _will_be_so(answer: Line) -> bool:
    """Is it worth asking again? Not for refusals, and not for a 1005 that named nobody: here somebody leads again."""
    said = answer.said
    return said["code"] == 0 and (answer.request_code != 1005 or "controllerLeaderAddress" in said["extFields"])


def replayed(
    mode: str, directory: Path, header_type: HeaderType, *, through_follower: bool
) -> Iterator[tuple[Story, Story]]:
    """(what Java answered, what we answer) in a fresh cluster."""
    cluster = QuorateCluster(directory)
    try:
        told = Life(mode, cluster, header_type, through_follower=through_follower)
        try:
            told.tell()
            yield told.java, told.ours
        finally:
            told.close()
    except Closed as error:
        raise AssertionError("a connection was closed") from error
    finally:
        cluster.stop()
