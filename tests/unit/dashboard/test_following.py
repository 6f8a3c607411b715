"""What a follower takes for the next event, and what it refuses: no broker, only records."""

import asyncio
import gc
import logging
from argparse import ArgumentParser
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest
from aiokafka import TopicPartition
from aiokafka.errors import KafkaConnectionError

from quorate.asking import UnreachedError
from quorate.errors import InvariantBrokenError, PeerError, UsageError
from quorate.events import ClusterCreated, DecodeError, UnknownSchemaError, encode
from quorate.log_filter import LOGGERS, RepeatFilter
from quorate.resolving import UnknownKindError
from quorate_spark.dashboard import command, follow, program
from quorate_spark.dashboard.follow import Follower, fact
from quorate_spark.dashboard.log import FoldedLog, WrongClusterError
from quorate_spark.dashboard.service import Service
from quorate_spark.dashboard.settings import Settings
from quorate_spark.dashboard.spool import Fact
from tests import newer
from tests.clusters import free_ports
from tests.dashboard.lives import Http, Page, life
from tests.unit.cli.served import serving

LIFE = life(2, 60)


def record(one: Fact, **headers: str) -> Any:
    """A fact as a record of the topic."""
    told = {name: str(value) for name, value in msgspec.to_builtins(one.stamp).items()} | headers
    return SimpleNamespace(
        offset=one.stamp.offset, value=one.frame, headers=[(name, text.encode()) for name, text in told.items()]
    )


def follower(cluster_id: str = "", registry: str = "") -> Follower:
    return Follower(Settings(nodes=("h:1",), registry=registry), FoldedLog(cluster_id), lambda: 0, lambda: None)


def test_a_record_is_the_event_it_was_made_from() -> None:
    """Every event of a life comes back from its record, stamp and bytes and all."""
    assert [fact(record(one)) for one in LIFE] == list(LIFE)


@pytest.mark.parametrize(
    ("value", "headers", "error"),
    [
        (b"", {}, DecodeError),
        (b"\0\0\0\0\1", {}, DecodeError),
        (b"\0\0\0\x7f\1", {}, UnknownSchemaError),
        (None, {}, PeerError),
        (LIFE[0].frame, {"offset": "x"}, PeerError),
    ],
)
def test_a_record_that_is_no_event_is_refused(
    value: bytes | None, headers: dict[str, str], error: type[Exception]
) -> None:
    """Neither other bytes nor another stamp are taken for an event."""
    wrong = record(LIFE[0], **headers)
    wrong.value = value
    with pytest.raises(error):
        fact(wrong)


def newest(one: Fact) -> Any:
    """The record of a fact as a newer build wrote it."""
    told = record(one)
    told.value = newer.frame_of(one.event)
    return told


def test_a_log_of_a_newer_build_is_followed() -> None:
    """Its events are read by the registry as ours, their bytes are kept as proof, and the past is told from them."""
    own = follower()
    own._take(list(LIFE))
    with newer.served(newer.module().SCHEMAS) as node:
        one = follower(registry=node)
        for batch in (LIFE[:1], LIFE[1:30], LIFE[29:]):
            one._take(asyncio.run(one._facts([newest(fact) for fact in batch])))
    assert one._folded.tip == own._folded.tip
    again = list(one._folded.spool.facts(0, len(LIFE)))
    assert [fact.event for fact in again] == [fact.event for fact in LIFE]
    assert [fact.frame for fact in again] == [newer.frame_of(fact.event) for fact in LIFE]


def test_where_nobody_answers_it_is_said_once_with_what_to_do(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """An HTTP port where Kafka's is meant is named with the right one; a dead one by what the flags want."""
    tries: list[int] = []

    async def nobody(self: Follower) -> None:
        tries.append(1)
        if len(tries) % 3 == 0:
            raise UsageError("enough")
        raise KafkaConnectionError

    monkeypatch.setattr(Follower, "_session", nobody)
    monkeypatch.setattr(follow, "PAUSES_S", (0.0,))
    with serving() as node:
        node.answers["/v1/quorum"] = {"voters": [{"id": 2, "kafka": "h:2", "http": node.address}]}
        for address in (node.address, f"127.0.0.1:{free_ports(1)}"):
            asyncio.run(Follower(Settings(nodes=(address,)), FoldedLog(""), lambda: 0, lambda: None).run())
        told = [record.getMessage() for record in caplog.records if record.levelname == "WARNING"]
        assert len(told) == 2
        assert f"{node.address} is the http port of node 2: say --nodes h:2" in told[0]
        assert "--nodes wants kafka addresses" in told[1]


def test_what_its_client_repeats_is_said_ever_more_seldom(monkeypatch: pytest.MonkeyPatch) -> None:
    """A node that is away is not told every two seconds: the page's program throttles aiokafka before it begins."""

    async def nothing(*_: object, **__: object) -> int:
        return 0

    loggers = [logging.getLogger(name) for name in LOGGERS]
    for logger in loggers:
        monkeypatch.setattr(logger, "filters", [])
    monkeypatch.setattr(program, "_serve", nothing)
    parser = ArgumentParser()
    command.arguments(parser)
    assert program.serve(parser.parse_args(["--nodes", "h:1"])) == 0
    assert all(isinstance(one, RepeatFilter) for logger in loggers for one in logger.filters)
    assert all(logger.filters for logger in loggers)


def test_the_nodes_that_the_log_names_are_asked() -> None:
    """Whoever said only Kafka addresses need not say where the registry is."""
    with newer.served(newer.module().SCHEMAS) as node:
        one = follower()
        birth = LIFE[0].event
        assert isinstance(birth, ClusterCreated)
        voters = tuple(
            msgspec.structs.replace(voter, addresses=msgspec.structs.replace(voter.addresses, http=node))
            for voter in birth.voters
        )
        born = msgspec.structs.replace(birth, voters=voters)
        one._take([Fact(LIFE[0].stamp, born, encode(born))])
        assert asyncio.run(one._facts([newest(LIFE[1])]))[0].event == LIFE[1].event


def test_a_newer_event_without_a_registry_is_trouble_that_passes() -> None:
    """The session ends, and the next one asks again; a kind that nobody here knows is refused by name."""
    with pytest.raises(UnreachedError):
        asyncio.run(follower(registry=f"127.0.0.1:{free_ports(1)}")._facts([newest(LIFE[0])]))
    unknown = record(LIFE[1])
    unknown.value = newer.retired("orders")
    with newer.served(newer.module().SCHEMAS) as node, pytest.raises(UnknownKindError, match="TopicRetired"):
        asyncio.run(follower(registry=node)._facts([unknown]))


def test_others_get_their_turn_after_each_batch(monkeypatch: pytest.MonkeyPatch) -> None:
    """A fetch holds many batches, and the client gives them one after the other without a pause of its own."""
    one, seen = follower(), list[int]()

    class Fetched:
        polls = 0

        async def getmany(self, partition: TopicPartition, **_: int) -> Any:
            if self.polls == 5:
                raise OSError("the end")
            self.polls += 1
            return {partition: [record(LIFE[one._folded.tip.offset])]}

        def last_poll_timestamp(self, _: object) -> int:
            return self.polls

        def highwater(self, _: object) -> int:
            return len(LIFE)

    async def run() -> None:
        async def look() -> None:
            while True:
                seen.append(one._folded.tip.offset)
                await asyncio.sleep(0)

        looking = asyncio.create_task(look())
        with pytest.raises(OSError, match="the end"):
            await one._follow(Fetched(), TopicPartition("t", 0))
        looking.cancel()

    monkeypatch.setattr(one, "_look", lambda *_: None)
    asyncio.run(run())
    assert seen == [1, 2, 3, 4, 5]


def test_a_client_that_fails_while_it_stops_disturbs_nobody(caplog: pytest.LogCaptureFixture) -> None:
    """It was left behind: what it says of its end is nobody's business, and no traceback."""

    class Failing:
        async def stop(self) -> None:
            raise KafkaConnectionError

    async def run() -> None:
        await follower()._left_behind(Failing())
        gc.collect()

    asyncio.run(run())
    assert not caplog.records


def test_a_session_begins_with_proof_of_the_same_log() -> None:
    """The last event again is fine, another one in its place is another log; what follows is folded once."""
    one = follower()
    one._take(list(LIFE[:20]))
    one._take(list(LIFE[19:30]))
    assert one._folded.tip.offset == 30
    other = Fact(LIFE[29].stamp, LIFE[29].event, LIFE[28].frame)
    with pytest.raises(InvariantBrokenError, match="another log"):
        one._take([other, *LIFE[30:]])
    assert one._folded.tip.offset == 30


def test_what_nobody_foresaw_ends_the_following_and_is_said(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """A page that reads no further says so, and why; its end is as clean as any."""

    async def broken(_: Follower) -> None:
        raise RuntimeError("of no kind that is expected")

    async def run() -> None:
        service, closed = Service(Settings(nodes=("h:1",)), lambda: 0), list[bool]()
        monkeypatch.setattr(service.folded, "close", lambda: closed.append(True))
        async with Http(Page(service)):
            await service._tasks[0]
            assert service.following.state == "refused"
            assert service.following.message == "RuntimeError: of no kind that is expected"
            monkeypatch.setattr(Follower, "run", broken)
            service._tasks.append(asyncio.create_task(service._follower.run()))
            await asyncio.sleep(0)
        assert closed == [True]

    monkeypatch.setattr(Follower, "_session", broken)
    asyncio.run(run())
    assert "followed no further" in caplog.text


def test_what_cannot_follow_is_refused_and_changes_nothing() -> None:
    """A hole, an older term or time, or one that is no number of ours, a second birth, and another cluster."""
    replace = msgspec.structs.replace
    for change in ({"offset": 31}, {"term": 0}, {"time_ms": 1}, {"term": 1 << 63}, {"time_ms": 1 << 63}):
        one = follower()
        one._take(list(LIFE[:30]))
        with pytest.raises(InvariantBrokenError):
            one._take([Fact(replace(LIFE[30].stamp, **change), LIFE[30].event, LIFE[30].frame)])
        assert one._folded.tip.offset == 30
    born = Fact(replace(LIFE[30].stamp, offset=30), LIFE[0].event, LIFE[0].frame)
    one = follower()
    one._take(list(LIFE[:30]))
    with pytest.raises(InvariantBrokenError):
        one._take([born])
    with pytest.raises(WrongClusterError):
        follower("another")._take(list(LIFE[:3]))
    follower("cluster-of-tests")._take(list(LIFE[:3]))
