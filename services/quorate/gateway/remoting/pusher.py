"""Calls to brokers: role changes (1008) pushed until acknowledged or given up, questions, and dials that prove a death.

Rules: every call ends in its callback exactly once, within its deadline. 1008 is sent as an ordinary, two-way request,
because stock brokers answer it; its body is never left out (a broker without it fails with code 1). A dial proves a
death only by a refusal; everything else proves nothing.
Source: Java ``ControllerManager.notifyBrokerRoleChanged`` (one-way there), ``ReplicasManager.changeBrokerRole``.
"""

import asyncio
import ssl
from collections.abc import Callable, Mapping
from typing import TypeVar, cast

import msgspec
import structlog

from quorate.controller.ports import DialResult, RoleChange
from quorate.errors import PeerError
from quorate.gateway.remoting import topics
from quorate.gateway.remoting.reach import AllowedNetworks, OutOfReachError
from quorate.gateway.remoting.settings import RemotingSettings
from quorate.metadata.texts import parse_address
from quorate.model.state import Topic
from quorate.wire.name_server import decode_topic, decode_topics
from quorate.wire.remoting import (
    RESPONSE_FLAG,
    FrameSplitter,
    HeaderType,
    Message,
    Response,
    decode_header,
    decode_response,
)
from quorate.wire.remoting_headers import GetTopicFields, RequestCode, ResponseCode, RoleChangedFields, SyncStateSetBody

_encode_body = msgspec.json.Encoder().encode
_REPLY_BYTES_MAX = 8 << 20
"""A broker's list of its topics is the longest."""
TELL_EVERY_S = 60.0
_T = TypeVar("_T")
_log = structlog.get_logger(__name__)


def role_change(change: RoleChange) -> Message:
    """1008 (Java ``NotifyBrokerRoleChangedRequestHeader``; body Java ``SyncStateSet``)."""
    fields = RoleChangedFields(
        master_address=change.master_address,
        master_broker_id=change.master,
        master_epoch=change.master_epoch,
        sync_state_set_epoch=change.sync_state_set_epoch,
        members=_encode_body(change.members).decode() if change.members else None,
    )
    body = _encode_body(SyncStateSetBody(change.sync_state_set, change.sync_state_set_epoch))
    return Message(RequestCode.NOTIFY_BROKER_ROLE_CHANGED, fields, body=body, flag=0)


class _Call:
    """One request under way: the deadline, and whom to tell, once."""

    __slots__ = ("_done", "message", "timer")

    def __init__(self, message: Message, timer: asyncio.TimerHandle, done: Callable[[Response | None], None]) -> None:
        self.message = message
        self.timer = timer
        self._done = done

    def frame(self, opaque: int) -> bytes:
        """Its bytes."""
        return self.message.frame(HeaderType.JSON, opaque)

    def end(self, answer: Response | None) -> None:
        """It was answered, or never will be."""
        self.timer.cancel()
        self._done(answer)


class _Broker(asyncio.Protocol):
    """One broker address while it is called: its connection, and the calls under way there."""

    def __init__(self, pusher: "RolePusher", address: str) -> None:
        self.calls: dict[int, _Call] = {}
        self.connecting: asyncio.Task[None] | None = None
        self._pusher = pusher
        self._address = address
        self._splitter = FrameSplitter(_REPLY_BYTES_MAX)
        self._transport: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Send what waited for it."""
        self._transport = cast(asyncio.Transport, transport)
        frames = [call.frame(opaque) for opaque, call in self.calls.items()]
        self._transport.write(b"".join(frames))

    def data_received(self, data: bytes) -> None:
        """Answers; whatever else a broker says is dropped."""
        try:
            for frame in self._splitter.feed(data):
                if decode_header(frame).flag & RESPONSE_FLAG:
                    answer = decode_response(frame)
                    self._pusher.ended(self, answer.opaque, answer)
        except PeerError:
            self.close()

    def connection_lost(self, exc: Exception | None) -> None:
        """Nothing under way here will be answered."""
        self._transport = None
        self._pusher.lost(self, self._address)

    def send(self, opaque: int, call: _Call) -> None:
        """Take a call; it leaves now, or when the connection is there."""
        self.calls[opaque] = call
        if self._transport is not None:
            self._transport.write(call.frame(opaque))

    def close(self) -> None:
        """End it, now."""
        if self._transport is not None:
            self._transport.abort()


class RolePusher:
    """The ``BrokerLink`` of the controller: one connection per broker address, opened when needed."""

    def __init__(
        self, settings: RemotingSettings, *, loop: asyncio.AbstractEventLoop, tls: ssl.SSLContext | None = None
    ) -> None:
        self._settings = settings
        self._reach = AllowedNetworks(settings.broker_networks)
        self._loop = loop
        self._tls = tls
        self._next_opaque = 1
        self._under_way = 0
        self._brokers: dict[str, _Broker] = {}
        self._idle: dict[str, asyncio.TimerHandle] = {}
        self._dials: set[asyncio.Task[None]] = set()
        self._stopped = False
        self._tell_again_at = float("-inf")
        self.out_of_reach = 0
        """Connections that were not made because of ``broker_networks``."""

    def notify(self, address: str, change: RoleChange, done: Callable[[bool], None]) -> None:
        """Push a role change; ``done(True)`` when the broker answered code 0, ``done(False)`` in every other case."""
        self.call(address, role_change(change), lambda answer: done(_succeeded(answer)))

    def ask_topics(self, address: str, done: Callable[[bytes | None], None]) -> None:
        """Ask a broker for its topics (21); the body of its answer, or None."""
        request = Message(RequestCode.GET_ALL_TOPIC_CONFIG, flag=0)
        self.call(
            address,
            request,
            lambda answer: done(answer.body if answer is not None and _succeeded(answer) else None),
            deadline_s=self._settings.ask_deadline_s,
        )

    def ask_topic(self, address: str, topic: str, done: Callable[[Mapping[str, Topic] | None], None]) -> None:
        """351."""

        def answered(answer: Response | None) -> None:
            if answer is not None and answer.code == ResponseCode.TOPIC_NOT_EXIST:
                done({})
            else:
                done(_read(answer, lambda body: {topic: topics.topic_of(topic, decode_topic(body))}))

        self.call(address, Message(RequestCode.GET_TOPIC_CONFIG, GetTopicFields(topic=topic), flag=0), answered)

    def ask_all_topics(self, address: str, done: Callable[[Mapping[str, Topic] | None], None]) -> None:
        """21."""

        def read(body: bytes) -> Mapping[str, Topic]:
            table = decode_topics(body).topic_config_table
            return {name: topics.topic_of(name, config) for name, config in table.items()}

        self.call(address, Message(RequestCode.GET_ALL_TOPIC_CONFIG, flag=0), lambda answer: done(_read(answer, read)))

    def put_topic(self, address: str, topic: Topic, before: Topic | None, done: Callable[[bool], None]) -> None:
        """17."""
        request = Message(RequestCode.UPDATE_AND_CREATE_TOPIC, topics.put_topic(topic, before), flag=0)
        self.call(address, request, lambda answer: done(_succeeded(answer)))

    def call(
        self,
        address: str,
        message: Message,
        done: Callable[[Response | None], None],
        *,
        deadline_s: float | None = None,
    ) -> None:
        """Ask a broker something; None: it did not answer in time, or could not be asked."""
        if self._stopped or self._under_way >= self._settings.push_in_flight_max or parse_address(address) is None:
            self._loop.call_soon(done, None)
            return
        broker = self._brokers.get(address)
        if broker is None:
            if not self._room():
                self._loop.call_soon(done, None)
                return
            broker = self._brokers[address] = _Broker(self, address)
            broker.connecting = self._loop.create_task(self._connect(broker, address))
        opaque = self._next_opaque
        self._next_opaque = opaque % 0x7FFFFFFF + 1
        timer = self._loop.call_later(deadline_s or self._settings.push_deadline_s, self.ended, broker, opaque, None)
        self._under_way += 1
        broker.send(opaque, _Call(message, timer, done))
        self._keep_open(address)

    def dial(self, address: str, done: Callable[[DialResult], None]) -> None:
        """Try to connect, and close again: ``refused`` proves that nobody listens there."""
        target = parse_address(address)
        if self._stopped or target is None or len(self._dials) >= self._settings.dials_max:
            self._loop.call_soon(done, "unknown")
            return
        task = self._loop.create_task(self._dial(*target, done))
        self._dials.add(task)
        task.add_done_callback(self._dials.discard)

    async def stop(self) -> None:
        """Close everything; calls under way end unacknowledged, dials prove nothing."""
        self._stopped = True
        for timer in self._idle.values():
            timer.cancel()
        tasks = [broker.connecting for broker in self._brokers.values() if broker.connecting is not None]
        tasks.extend(self._dials)
        for address, broker in tuple(self._brokers.items()):
            broker.close()
            self.lost(broker, address)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def ended(self, broker: _Broker, opaque: int, answer: Response | None) -> None:
        """A broker answered, or the deadline passed; an answer nobody waits for is dropped."""
        call = broker.calls.pop(opaque, None)
        if call is not None:
            self._under_way -= 1
            call.end(answer)

    def lost(self, broker: _Broker, address: str) -> None:
        """No connection, or none any more."""
        if self._brokers.get(address) is broker:
            del self._brokers[address]
        for opaque in tuple(broker.calls):
            self.ended(broker, opaque, None)

    async def _connect(self, broker: _Broker, address: str) -> None:
        target = cast(tuple[str, int], parse_address(address))
        try:
            async with asyncio.timeout(self._settings.push_deadline_s):
                await self._reach.connect(self._loop, lambda: broker, *target, self._tls)
        except OutOfReachError:
            self._refused(address)
            self.lost(broker, address)
        except (OSError, ValueError):  # ValueError: a host that no name can have (``a..b``).
            self.lost(broker, address)
        finally:
            broker.connecting = None

    def _room(self) -> bool:
        """Is there a place for one more connection? An idle one is closed for it."""
        if len(self._brokers) < self._settings.push_connections_max:
            return True
        for address, broker in self._brokers.items():
            if not broker.calls and broker.connecting is None:
                broker.close()
                del self._brokers[address]
                return True
        return False

    def _keep_open(self, address: str) -> None:
        previous = self._idle.pop(address, None)
        if previous is not None:
            previous.cancel()
        self._idle[address] = self._loop.call_later(self._settings.push_idle_s, self._close_idle, address)

    def _close_idle(self, address: str) -> None:
        del self._idle[address]
        broker = self._brokers.get(address)
        if broker is not None:
            broker.close()

    async def _dial(self, host: str, port: int, done: Callable[[DialResult], None]) -> None:
        result: DialResult = "unknown"
        try:
            async with asyncio.timeout(self._settings.dial_deadline_s):
                transport, _ = await self._reach.connect(self._loop, asyncio.Protocol, host, port)
            transport.abort()
            result = "accepted"
        except ConnectionRefusedError:
            result = "refused"
        except OutOfReachError:
            self._refused(f"{host}:{port}")
        except (OSError, ValueError):
            pass
        finally:
            done(result)

    def _refused(self, address: str) -> None:
        """Told once a minute at the most, with how many there were: whoever registers may do so without end."""
        self.out_of_reach += 1
        now = self._loop.time()
        if now >= self._tell_again_at:
            self._tell_again_at = now + TELL_EVERY_S
            _log.warning("a broker's address is in none of broker_networks", address=address, refused=self.out_of_reach)


def _read(answer: Response | None, read: Callable[[bytes], _T]) -> _T | None:
    """What a broker said; None: nothing, or nothing that can be read."""
    if answer is None or not _succeeded(answer):
        return None
    try:
        return read(answer.body)
    except PeerError:
        return None


def _succeeded(answer: Response | None) -> bool:
    return answer is not None and answer.code == ResponseCode.SUCCESS
