"""Topics asked of brokers and told to them: the requests that tools make, and answers of any kind."""

import asyncio
import json
from collections.abc import Awaitable, Callable
from typing import Any, cast

import pytest
import uvloop

from quorate.gateway.remoting.pusher import RolePusher
from quorate.gateway.remoting.settings import RemotingSettings
from quorate.model.state import Topic
from quorate.wire.remoting import FrameSplitter, Header, HeaderType, Message, decode_header

TOPIC = Topic(
    topic="t", read_queues=4, write_queues=2, permission=6, filter_type="SINGLE_TAG", attributes={"a": "1", "b": "2"}
)
CONFIG = {
    "topicName": "t", "readQueueNums": 4, "writeQueueNums": 2, "perm": 6, "topicFilterType": "SINGLE_TAG",
    "topicSysFlag": 0, "order": False, "attributes": {"a": "1", "b": "2"},
}  # fmt: skip


class Broker(asyncio.Protocol):
    """Answers every request with the same."""

    def __init__(self, answer: Message, heard: list[Header]) -> None:
        self._answer = answer
        self._heard = heard
        self._splitter = FrameSplitter()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)

    def data_received(self, data: bytes) -> None:
        for frame in self._splitter.feed(data):
            header = decode_header(frame)
            self._heard.append(header)
            self._transport.write(self._answer.frame(HeaderType.JSON, header.opaque))


def said(answer: Message, ask: Callable[[RolePusher, str, Callable[[Any], None]], None]) -> tuple[Any, list[Header]]:
    """What comes of a question to a broker that answers so, and what it heard."""
    heard: list[Header] = []

    async def run() -> object:
        loop = asyncio.get_running_loop()
        pusher = RolePusher(RemotingSettings(), loop=loop)
        server = await loop.create_server(lambda: Broker(answer, heard), "127.0.0.1", 0)
        done: asyncio.Future[object] = loop.create_future()
        ask(pusher, f"127.0.0.1:{server.sockets[0].getsockname()[1]}", done.set_result)
        try:
            async with asyncio.timeout(10):
                return await cast(Awaitable[object], done)
        finally:
            await pusher.stop()
            server.close()

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        return runner.run(run()), heard


def test_a_topic_is_asked_for_by_its_name() -> None:
    """351: what the broker has, as a topic of ours; code 17: it has none."""
    found, ((header),) = said(
        Message(0, body=json.dumps({**CONFIG, "mappingDetail": None}).encode()),
        lambda pusher, address, done: pusher.ask_topic(address, "t", done),
    )
    assert (found, header.code, header.fields) == ({"t": TOPIC}, 351, {"topic": "t"})
    found, _ = said(Message(17), lambda pusher, address, done: pusher.ask_topic(address, "t", done))
    assert found == {}


def test_all_topics_are_asked_for_at_once() -> None:
    """21: by their names."""
    body = json.dumps({"topicConfigTable": {"t": CONFIG}, "dataVersion": {}}).encode()
    found, ((header),) = said(Message(0, body=body), lambda pusher, at, done: pusher.ask_all_topics(at, done))
    assert (found, header.code) == ({"t": TOPIC}, 21)


@pytest.mark.parametrize("answer", [Message(1), Message(0, body=b"{"), Message(0, body=b'{"topicConfigTable":[]}')])
def test_an_answer_that_says_nothing_is_none(answer: Message) -> None:
    """A failure, no JSON, another JSON."""
    assert said(answer, lambda pusher, address, done: pusher.ask_all_topics(address, done))[0] is None


def test_a_topic_is_told_as_tools_tell_it() -> None:
    """17, with every field that a broker cannot do without; attributes as changes of what was before."""
    before = Topic(
        topic="t", read_queues=1, write_queues=1, permission=6, filter_type="SINGLE_TAG",
        attributes={"a": "1", "b": "9", "c": "3"},
    )  # fmt: skip
    done, ((header),) = said(Message(0), lambda pusher, at, done: pusher.put_topic(at, TOPIC, before, done))
    fields = {
        "topic": "t", "defaultTopic": "TBW102", "readQueueNums": "4", "writeQueueNums": "2", "perm": "6",
        "topicFilterType": "SINGLE_TAG", "topicSysFlag": "0", "order": "false", "attributes": "+b=2,-c",
    }  # fmt: skip
    assert (done, header.code, header.fields) == (True, 17, fields)
    done, ((header),) = said(Message(1), lambda pusher, at, done: pusher.put_topic(at, TOPIC, None, done))
    assert (done, header.fields["attributes"]) == (False, "+a=1,+b=2")
