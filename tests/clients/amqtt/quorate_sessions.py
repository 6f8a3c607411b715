"""A plug-in of amqtt, a stock MQTT broker: brokers that have it share their persistent sessions through Quorate.

Rules: it knows nothing of Quorate but what a node tells by reflection. A publisher is acknowledged once its message is
kept, in Quorate's keys, for every persistent session it is for; it goes from there when the subscriber has acknowledged
it. So it is sent again after any death, and lost by none. Sessions that end with their connection stay amqtt's own.

How: amqtt asks plug-ins before CONNACK (``authenticate``), before SUBACK and before each delivery of its own
(``topic_filtering``). Before PUBACK it asks nobody, but puts the message into its session's queue and waits for that:
so the queue of every session is one of ours.

Usage: ``quorate_sessions.Plugin`` in a broker's configuration (tests/mqtt/brokers.py).
"""

import asyncio
import base64
import json
import logging
import time
import uuid
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import quote, unquote

import grpc
from amqtt.contexts import Action
from amqtt.plugins.base import BaseAuthPlugin, BaseTopicPlugin
from quorate_client import KV, MEMBERS, MQTT, WATCH, Quorate

INBOX = "mqtt/inbox/"
ASCENDING, BY_CREATION = 1, 2
"""``SortOrder`` and ``SortTarget`` of a Range."""
OPERATIONS_MAX = 128
"""Of a transaction."""
AT_ONCE = 100
"""Messages of an inbox that are read together."""
PATIENCE_S, AGAIN_S = 30.0, 0.1
QUEUED_MAX = 1000
INCARNATION = uuid.uuid4()

log = logging.getLogger("quorate_sessions")


class Kept(asyncio.Queue[Any]):
    """What a client published, in its order: a message is in here once it is kept for all it is for."""

    def __init__(self, keep: Callable[[Any], Awaitable[None]]) -> None:
        super().__init__(QUEUED_MAX)
        self._keep, self._turn = keep, asyncio.Lock()
        self._later = set[asyncio.Task[None]]()

    async def put(self, item: Any) -> None:
        """amqtt acknowledges the message when this returns."""
        async with self._turn:
            await self._keep(item)
            await super().put(item)

    def put_nowait(self, item: Any) -> None:
        """Of quality 0: nobody waits for it, and what comes too fast may be lost. ``put`` ends here too."""
        if item.qos == 0 and len(self._later) < QUEUED_MAX:
            task = asyncio.ensure_future(self._keep(item))
            self._later.add(task)
            task.add_done_callback(self._later.discard)
        super().put_nowait(item)


@dataclass
class Here:
    """A client that is connected here."""

    session_epoch: int
    asked: dict[str, int] = field(default_factory=dict)
    """The quality of service it asked for, by filter."""
    left: bool = False
    """It said that it goes."""
    told: asyncio.Event = field(default_factory=asyncio.Event)
    """There may be something in its inbox."""
    gone: asyncio.Event = field(default_factory=asyncio.Event)
    handler: Any = None
    unwanted: bool = False
    delivery: asyncio.Task[None] | None = None

    async def hang_up(self) -> None:
        """Close the connection, as if the client had; at once, or when there is one."""
        self.unwanted = True
        if self.handler is not None:
            await self.handler.handle_connection_closed()


def inbox(client: str) -> bytes:
    """Where a session's messages are kept."""
    return f"{INBOX}{quote(client, safe='')}/".encode()


def under(prefix: bytes) -> dict[str, bytes]:
    """All keys that begin so."""
    return {"key": prefix, "range_end": prefix[:-1] + bytes([prefix[-1] + 1])}


class Plugin(BaseAuthPlugin, BaseTopicPlugin):  # type: ignore[misc]
    """One broker: a member, its clients' sessions, and the wills it is to publish."""

    @dataclass
    class Config:
        """What a configuration says of it."""

        name: str
        address: str
        nodes: str
        """host:port,… of Quorate's gRPC."""
        timeout_ms: int = 3000
        expiry_s: int = 3600
        """MQTT 3.1.1 has no expiry of its own."""

    def __init__(self, context: Any) -> None:
        super().__init__(context)
        self._quorate = Quorate(self.config.nodes)
        self._me, self._epoch, self._heard = self.config.name, 0, 0
        self._here = dict[str, Here]()
        self._ready, self._tasks = asyncio.Event(), list[asyncio.Task[None]]()

    # ── the broker's life ───────────────────────────────────────────────────────────────────────────────────────────

    async def on_broker_post_start(self) -> None:
        """It listens."""
        self._tasks += [asyncio.ensure_future(again(work)) for work in (self._beat, self._inboxes, self._orders)]

    async def close(self) -> None:
        """It has ended."""
        for task in self._tasks:
            task.cancel()
        await self._quorate.close()

    async def _beat(self) -> None:
        config = self.config
        life = {"name": self._me, "incarnation": str(INCARNATION), "timeout_ms": config.timeout_ms}
        addresses = {"mqtt": config.address}
        member = await self._quorate.ask(MEMBERS, "Register", **life, roles=["mqtt"], addresses=addresses)
        self._epoch, known = member.epoch, {"epoch": member.epoch, "applied_revision": member.revision}
        while True:
            beat = await self._quorate.ask(MEMBERS, "Heartbeat", name=self._me, **known)
            if not beat.fenced:
                self._ready.set()
            await asyncio.sleep(config.timeout_ms / 3000)

    async def _inboxes(self) -> None:
        answers = self._quorate.follow(WATCH, "Watch", create_request=under(INBOX.encode()))
        async for answer in answers:
            clients = {unquote(event.kv.key.decode().removeprefix(INBOX).split("/")[0]) for event in answer.events}
            for client in self._here if answer.created else clients & self._here.keys():
                self._here[client].told.set()

    async def _orders(self) -> None:
        """What this member has to do: let go whom another has, publish wills."""
        await self._ready.wait()
        while not self._heard:
            listed = await self._quorate.ask(MQTT, "ListWills", member=self._me)
            for will in listed.wills:
                await self._publish(will)
            self._heard = 0 if listed.more else listed.revision
        start = {"member": self._me, "start_revision": self._heard + 1}
        async for answer in self._quorate.follow(MQTT, "Watch", **start):
            for change in answer.changes:
                if change.HasField("will"):
                    await self._publish(change.will)
                elif change.HasField("opened"):
                    here = self._here.get(change.opened.client)
                    if here is not None and here.session_epoch < change.opened.session_epoch:
                        await here.hang_up()
            self._heard = answer.revision

    async def _publish(self, handed: Any) -> None:
        will = handed.message
        await self._keep(will.topic, will.payload, will.qos)
        await self.context.broadcast_message(will.topic, will.payload, will.qos)
        if will.retain:
            await self.context.retain_message(will.topic, will.payload, will.qos)
        me = {"member": self._me, "member_epoch": self._epoch}
        try:
            await self._quorate.ask(MQTT, "AcknowledgeWill", will=handed.will, **me)
        except grpc.aio.AioRpcError as error:
            if error.code() is not grpc.StatusCode.NOT_FOUND:  # It was acknowledged, and nobody said so.
                raise

    # ── a client's life ─────────────────────────────────────────────────────────────────────────────────────────────

    async def authenticate(self, *, session: Any) -> bool:
        """A client connects; it is told so when this returns. False: it may try again."""
        client = session.client_id
        try:
            async with asyncio.timeout(PATIENCE_S):
                await self._ready.wait()
                before = self._here.get(client)
                if before is not None and before.handler is not None:
                    await before.hang_up()
                    await before.gone.wait()
                opened = await self._open(session)
                if not opened.present:
                    await self._quorate.ask(KV, "DeleteRange", **under(inbox(client)))
        except (grpc.aio.AioRpcError, TimeoutError):
            log.exception("%s is not let in", client)
            return False
        session.parent = int(opened.present)
        if opened.session_epoch:
            session.will_flag = False  # Quorate has it.
        if not isinstance(session.delivered_message_queue, Kept):
            session.delivered_message_queue = Kept(lambda message: self._received(client, message))
        self._here[client] = Here(opened.session_epoch)
        return True

    async def _open(self, session: Any) -> Any:
        will = {"topic": session.will_topic, "payload": bytes(session.will_message or b""), "qos": session.will_qos}
        return await self._quorate.ask(
            MQTT,
            "OpenSession",
            client=session.client_id,
            clean_start=session.clean_session,
            expiry_s=0 if session.clean_session else self.config.expiry_s,
            will={**will, "retain": session.will_retain} if session.will_flag else None,
            member=self._me,
            member_epoch=self._epoch,
            request_id=f"{time.time_ns() // 1_000_000}-{uuid.uuid4()}",  # It may be asked again: one connection.
        )

    async def on_broker_client_connected(self, client_id: str, client_session: Any) -> None:
        """It was told; what was published meanwhile follows."""
        here = self._here[client_id]
        # No other way leads to one client alone, nor tells when it has acknowledged.
        here.handler = self.context._broker_instance.sessions[client_id][1]
        if here.unwanted:
            await here.hang_up()
        elif here.session_epoch:
            here.delivery = asyncio.ensure_future(self._deliver(client_id, here))

    async def on_mqtt_packet_received(self, packet: Any, session: Any = None) -> None:
        """What amqtt does not tell later: the quality of service asked for, and that a client goes in order."""
        here = self._here.get(session.client_id) if session else None
        if here and type(packet).__name__ == "SubscribePacket":
            here.asked.update(packet.payload.topics)
        elif here and type(packet).__name__ == "DisconnectPacket":
            here.left = True

    async def topic_filtering(self, *, session: Any = None, topic: Any = None, action: Any = None) -> bool:
        """May it subscribe? May amqtt deliver to it? (Not to a persistent session: that is done here.)"""
        if action is Action.RECEIVE:
            return bool(session.clean_session)
        here = self._here.get(session.client_id)
        if action is not Action.SUBSCRIBE or here is None or not here.session_epoch:
            return True
        added = {"filter": topic, "qos": min(here.asked.get(topic, 0), 1)}
        return await self._subscribe(session.client_id, here, added=[added])

    async def on_broker_client_unsubscribed(self, client_id: str, topic: str) -> None:
        """It did."""
        here = self._here.get(client_id)
        if here is not None and here.session_epoch:
            await self._subscribe(client_id, here, removed=[topic])

    async def _subscribe(self, client: str, here: Here, **changed: Any) -> bool:
        try:
            mine = {"client": client, "session_epoch": here.session_epoch}
            await self._quorate.ask(MQTT, "PutSubscriptions", **mine, **changed)
        except grpc.aio.AioRpcError:
            log.exception("subscriptions of %s are as they were", client)
            return False
        return True

    async def on_broker_client_disconnected(self, client_id: str, client_session: Any) -> None:
        """It is gone, or was told to."""
        here = self._here.pop(client_id)
        here.gone.set()
        if here.delivery is not None:
            here.delivery.cancel()
        if here.session_epoch:
            mine = {"client": client_id, "session_epoch": here.session_epoch}
            try:
                await self._quorate.ask(MQTT, "CloseSession", **mine, with_will=not here.left)
            except grpc.aio.AioRpcError as error:
                log.info("%s: %s", client_id, error.details())  # Another has it, most likely.

    # ── messages ────────────────────────────────────────────────────────────────────────────────────────────────────

    async def _received(self, client: str, message: Any) -> None:
        try:
            await self._keep(message.topic, bytes(message.data), message.qos)
        except grpc.aio.AioRpcError:
            log.exception("a message of %s is not kept, and not acknowledged", client)
            await self._here[client].hang_up()
            raise

    async def _keep(self, topic: str, data: bytes, qos: int) -> None:
        found = await self._quorate.ask(MQTT, "Match", topic=topic)
        every = [one for member in found.members for one in member.subscribers]
        every.sort(key=lambda one: (one.connected, one.subscription.qos))
        chosen = {(one.group, one.subscription.filter if one.group else one.client): one for one in every}
        name, puts = uuid.uuid4().hex, list[Any]()
        for number, one in enumerate(chosen.values()):
            kept = {"topic": topic, "data": base64.b64encode(data).decode(), "qos": min(qos, one.subscription.qos)}
            put = {"key": inbox(one.client) + f"{name}-{number}".encode(), "value": json.dumps(kept).encode()}
            puts.append({"request_put": put})
        for first in range(0, len(puts), OPERATIONS_MAX):
            await self._quorate.ask(KV, "Txn", success=puts[first : first + OPERATIONS_MAX])

    async def _deliver(self, client: str, here: Here) -> None:
        oldest = {**under(inbox(client)), "limit": AT_ONCE, "sort_order": ASCENDING, "sort_target": BY_CREATION}
        try:
            while True:
                here.told.clear()
                found = await self._quorate.ask(KV, "Range", **oldest)
                for kept in found.kvs:
                    message = json.loads(kept.value)
                    data = base64.b64decode(message["data"])
                    await here.handler.mqtt_publish(message["topic"], data, message["qos"], retain=False)
                    await self._quorate.ask(KV, "DeleteRange", key=kept.key)
                if not found.kvs:
                    await here.told.wait()
        except (grpc.aio.AioRpcError, TimeoutError):
            log.exception("%s is to come again", client)
            await here.hang_up()


async def again(work: Callable[[], Awaitable[None]]) -> None:
    """Whenever it ends."""
    while True:
        try:
            await work()
        except Exception:
            log.exception("%s begins again", work.__name__)
        await asyncio.sleep(AGAIN_S)
