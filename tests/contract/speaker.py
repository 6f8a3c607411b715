"""Who speaks in a contract case: asks, and writes down every answer in a form two controllers can be compared in.

An answer is a flat table path → text: ``code``, ``remark``, ``fields.<name>``, ``body.<path>`` (``body`` for text that
is no JSON), and ``closed``. Only what must differ is mapped: the broker set's name of this run, and the controllers'
own addresses. A broker is one connection to every controller: its heartbeats go there, it dies by closing them.
"""

import json
import re
import time
from collections.abc import Callable, Mapping
from typing import Any

from quorate.wire.remoting import HeaderType, Response
from tests.contract.client import Closed, Remoting, leader_of, read_json

Answer = dict[str, str]
Story = dict[str, Answer]
PATIENCE_S = 30.0
NEVER_MS = 600_000
_ADDRESS = re.compile(r"127\.0\.0\.1:\d{5}")
"""Listeners of this run; the brokers of the cases have shorter ports."""


def flat(value: Any, path: str) -> Answer:
    """A JSON value as path → text; an object's members each, a list as one text."""
    if isinstance(value, dict):
        found: Answer = {} if value else {path: "{}"}
        for name, member in value.items():
            found |= flat(member, f"{path}.{name}")
        return found
    if isinstance(value, list) and value and all(isinstance(one, dict) for one in value):
        return {key: text for at, one in enumerate(value) for key, text in flat(one, f"{path}[{at}]").items()}
    return {path: json.dumps(value)}


def shape(response: Response) -> Answer:
    """Everything an answer says."""
    answer = {"code": str(response.code), "remark": json.dumps(response.remark)}
    answer |= {f"fields.{name}": value for name, value in response.fields.items()}
    if response.body:
        try:
            answer |= flat(read_json(response.body), "body")
        except ValueError:
            answer["body"] = response.body.decode(errors="replace")
        if b'{1:"' in response.body or b',2:"' in response.body:
            answer["body (numeric keys)"] = "bare"
        elif b'"1":"' in response.body:
            answer["body (numeric keys)"] = "quoted"
    return answer


class Speaker:
    """One case's conversation with a cluster through one address."""

    def __init__(self, name: str, controllers: list[str], address: str, header_type: HeaderType) -> None:
        self.set = name
        self.controllers = controllers
        self.address = address
        self.header_type = header_type
        self.story: Story = {}
        self._client = Remoting(address, header_type)
        self._brokers: dict[tuple[str, int], list[Remoting]] = {}

    def close(self) -> None:
        """Hang up everywhere."""
        self._client.close()
        for clients in self._brokers.values():
            for client in clients:
                client.close()

    # -- what is written down

    def note(self, step: str, answer: Answer) -> None:
        """Write an answer down."""
        assert step not in self.story, f"two steps are called {step!r}"
        self.story[step] = {self._mapped(path): self._mapped(text) for path, text in answer.items()}

    def _mapped(self, text: str) -> str:
        text = text.replace(self.set, "$set")
        for address in self.controllers:
            text = text.replace(address, "$controller")
        return _ADDRESS.sub("$address", text)

    # -- requests

    def quiet(self, code: int, body: Any = b"", /, **fields: object) -> Response:
        """Ask without writing it down."""
        return self._client.ask(code, body, **fields)

    def ask(self, step: str, code: int, body: Any = b"", /, **fields: object) -> Response:
        """Ask and write the answer down."""
        try:
            response = self._client.ask(code, body, **fields)
        except (Closed, TimeoutError) as error:
            self._client.close()
            self._client = Remoting(self.address, self.header_type)
            self.note(step, {"closed": "not answered in time" if isinstance(error, TimeoutError) else "closed"})
            return Response(-1, 0, None, {}, b"")
        self.note(step, shape(response))
        return response

    def eventually(self, step: str, so: Callable[[Response], bool], code: int, /, **fields: object) -> None:
        """Ask until something is so; write that answer down (or the last one, when it never is)."""
        end = time.monotonic() + PATIENCE_S
        while True:
            response = self._client.ask(code, **fields)
            if so(response) or time.monotonic() > end:
                self.note(step, shape(response))
                return
            time.sleep(0.05)

    def raw(self, step: str, data: bytes) -> None:
        """Send bytes on a connection of their own; write down an answer, or that it was closed."""
        with Remoting(self.address, self.header_type, timeout_s=3.0) as client:
            client.raw(data)
            try:
                self.note(step, shape(client.receive()[0]))
            except Closed:
                self.note(step, {"closed": "without an answer"})
            except TimeoutError:
                self.note(step, {"closed": "no, and not answered"})

    # -- brokers

    def beat(self, broker_id: int, name: str | None = None, **more: object) -> None:
        """A heartbeat to every controller, two-way so that it is there when this returns."""
        key = (name or self.set, broker_id)
        if key not in self._brokers:
            self._brokers[key] = [Remoting(address, self.header_type) for address in self.controllers]
        fields: Mapping[str, object] = {
            "clusterName": "C",
            "brokerName": key[0],
            "brokerId": broker_id,
            "brokerAddr": self.serves(broker_id),
            "heartbeatTimeoutMills": NEVER_MS,
            "epoch": -1,
            "maxOffset": 0,
            "confirmOffset": 0,
            **more,
        }
        for client in self._brokers[key]:
            assert client.ask(904, **fields).code == 0

    def serves(self, broker_id: int) -> str:
        """Where a broker of a case claims to serve; nobody listens there."""
        return f"127.0.0.1:{broker_id}"

    def die(self, broker_id: int, name: str | None = None) -> None:
        """All its connections close."""
        for client in self._brokers.pop((name or self.set, broker_id)):
            client.close()

    def boot(self, broker_id: int, name: str | None = None, **beat: object) -> None:
        """Take an id, register, beat; nothing of it is written down."""
        known = {"clusterName": "C", "brokerName": name or self.set}
        code = f"{self.serves(broker_id)};1"
        assert self.quiet(1013, **known, appliedBrokerId=broker_id, registerCheckCode=code).code == 0
        assert self.quiet(1003, **known, brokerId=broker_id, brokerAddress=self.serves(broker_id)).code == 0
        self.beat(broker_id, name, **beat)

    def replicas(self, *broker_ids: int, **beats: Mapping[str, Any]) -> None:
        """Brokers booted in order, the first elected, all in sync: sync state set epoch 2, master epoch 1."""
        for broker_id in broker_ids:
            self.boot(broker_id, **beats.get(f"b{broker_id}", {}))
            if broker_id == broker_ids[0]:
                assert self.quiet(1002, clusterName="C", brokerName=self.set, brokerId=broker_id).code == 0
        if len(broker_ids) > 1:
            body = {"syncStateSet": list(broker_ids), "syncStateSetEpoch": 1}
            assert self.quiet(1001, body, brokerName=self.set, masterBrokerId=broker_ids[0], masterEpoch=1).code == 0


def ready_leader(controllers: list[str]) -> str:
    """The leader once it answers as one: a Java leader is named before it serves. Raises TimeoutError."""
    end = time.monotonic() + PATIENCE_S
    while time.monotonic() < end:
        leader = leader_of(controllers, PATIENCE_S)
        with Remoting(leader) as client:
            if client.ask(1012, clusterName="C", brokerName="nobody").code == 0:
                return leader
        time.sleep(0.1)
    raise TimeoutError("no leader serves")


def tell(
    case: Callable[[Speaker], None], name: str, controllers: list[str], *, follower: bool, header_type: HeaderType
) -> Story:
    """Run one case against a cluster; what was answered."""
    leader = ready_leader(controllers)
    address = next(one for one in controllers if (one != leader) == follower)
    speaker = Speaker(name, controllers, address, header_type)
    try:
        case(speaker)
        return speaker.story
    finally:
        speaker.close()
