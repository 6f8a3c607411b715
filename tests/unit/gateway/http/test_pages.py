"""Pages of every list: each ends by its bytes, and is found and made a little a step, whatever there is."""

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from itertools import pairwise
from typing import Any

import msgspec
import pytest
from immutables import Map

from quorate.gateway.http import interface
from quorate.gateway.http.answers import DataVersion
from quorate.gateway.http.asking import Asking
from quorate.gateway.http.context import Announcements
from quorate.gateway.http.subjects import Subjects
from quorate.gateway.remoting.announced import Set, topic_told
from quorate.metadata.commands import ChangeConfig, CloseSession, NextSegment, RegisterSchema
from quorate.model.routes import QueueData
from quorate.model.rows import ROWS_PER_STEP
from quorate.model.state import BrokerSet, Config, Election, Topic, Will
from quorate.slices import Steps, in_slices
from tests.unit.controller.bench import Line
from tests.unit.gateway.http.test_held import Holding
from tests.unit.gateway.http.test_interface import House

SCOPE_BYTES = 1_000_000
MANY = 1_000
SCHEMAS_MANY = 50


class Told(House):
    """Set x announced these topics."""

    def __init__(self, *names: str) -> None:
        super().__init__()
        queues = QueueData(broker_name="x", read_queue_nums=8, write_queue_nums=4, perm=6, topic_sys_flag=1)
        self.known = Set(cluster="c", topics=dict.fromkeys(names, queues))
        told = Announcements(
            (),
            DataVersion(state_version=1, timestamp_ms=2, counter=3),
            self.known.topics.keys(),
            partial(topic_told, self.known),
        )
        self.router = interface(replace(self.context(), announced=lambda name: told if name == "x" else None))


class Full(Holding):
    """Some of everything that is told in pages."""

    def __init__(self) -> None:
        super().__init__()
        self.bench.broker_set([Line(), Line()], name="b")
        self.topics("t1", "t2", "t3")
        for name in ("t1", "t2", "t3"):
            self.bench.done(ChangeConfig(scope=f"topic/{name}", changes={"x": "1"}))
        for number in range(2):
            by = self.led(f"pay/{number}")
            self.bench.done(NextSegment(shard="pay", current=number, end_offset=5 + number, by=by))
        self.will()

    def will(self) -> None:
        """Two clients are lost, and nobody has published their wills."""
        for client in ("d", "e"):
            will = Will(topic=f"lost/{client}", payload=b"x", qos=1, retain=False, delay_s=0)
            epoch = self.open(client, will=will)
            self.bench.done(CloseSession(client=client, session_epoch=epoch, with_will=True))

    def pages(self, path: str, field: str, limit: int = 3) -> list[list[Any]]:
        """All pages of a list."""
        found, more = list[list[Any]](), ""
        while True:
            page = self.get(f"{path}limit={limit}{more}")
            found.append(page[field])
            if page["next"] is None:
                return found
            more = f"&after={page['next']}"


LISTS = [
    ("/v1/brokers?", "brokers", "broker_set"),
    ("/v1/topics?", "topics", "topic"),
    ("/v1/config?", "config", "scope"),
    ("/v1/members?", "members", "name"),
    ("/v1/shards?", "shards", "shard"),
    ("/v1/shards/pay?", "segments", "segment"),
    ("/v1/sessions?", "sessions", "client"),
    ("/v1/wills?", "wills", "will"),
    ("/v1/elections?", "elections", "broker_set"),
    ("/v1/diff?from=1&", "entities", "key"),
]


@pytest.mark.parametrize(("path", "field", "name"), LISTS)
def test_every_page_ends_by_its_bytes(path: str, field: str, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """With long items it has less than was asked for, never nothing, and ``next`` leads through all of them once."""
    house = Full()
    everything = [item[name] for page in house.pages(path, field) for item in page]
    assert len(everything) > 1
    for module in ("reading", "sessions"):
        monkeypatch.setattr(f"quorate.gateway.http.{module}.PAGE_BYTES", 1)
    assert [[item[name] for item in page] for page in house.pages(path, field)] == [[one] for one in everything]


def test_a_page_of_what_brokers_announced_ends_by_its_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its names are those of its topics."""
    house = Told("t1", "t2", "t3")
    monkeypatch.setattr("quorate.gateway.http.reading.PAGE_BYTES", 1)
    page = house.get("/v1/brokers/x/topics?limit=2")
    assert (page["names"], [topic["topic"] for topic in page["topics"]], page["next"]) == (["t1"], ["t1"], "t1")
    page = house.get("/v1/brokers/x/topics?after=t2")
    assert (page["names"], [topic["topic"] for topic in page["topics"]], page["next"]) == (["t3"], ["t3"], None)


def test_long_settings_are_told_a_scope_at_a_time() -> None:
    """Scopes of a megabyte each do not make an answer of many."""
    house = House()
    scopes = {name: Config(scope=name, values={"x": "y" * SCOPE_BYTES}) for name in ("a", "b", "c")}
    house.bench.machine.state = msgspec.structs.replace(house.bench.machine.state, configs=Map(scopes))
    seen, more = list[str](), ""
    while True:
        answers = house.send("GET", f"/v1/config?limit=3{more}")
        house.bench.settle()
        assert len(answers[0].body) < 3 * SCOPE_BYTES
        page = msgspec.json.decode(answers[0].body)
        seen += [one["scope"] for one in page["config"]]
        if page["next"] is None:
            break
        more = f"&after={page['next']}"
    assert seen == ["a", "b", "c"]


def stepped(monkeypatch: pytest.MonkeyPatch, between: Callable[[int], None]) -> None:
    """``between`` is called between two steps of what is asked next, with how many there were."""
    answer = Asking.made

    def noted(steps: Steps[object]) -> Steps[object]:
        count = 0
        while True:
            try:
                waits = next(steps)
            except StopIteration as end:
                return end.value
            count += 1
            between(count)
            yield waits

    monkeypatch.setattr(Asking, "made", lambda asking, call, steps: answer(asking, call, noted(steps)))


def many() -> House:
    """Sets, each with an election, topics and scopes."""
    names = [f"t{number}" for number in range(MANY)]
    house, last = Told(*names), Election(offset=1, time_ms=1, trigger="t", explanation="e")
    state = house.bench.machine.state
    topics = {
        name: Topic(topic=name, read_queues=4, write_queues=4, permission=6, filter_type="SINGLE_TAG") for name in names
    }
    house.bench.machine.state = msgspec.structs.replace(
        state,
        topics=Map(topics),
        configs=Map({name: Config(scope=name, values={}) for name in names}),
        broker_sets=Map({name: BrokerSet(name=name, cluster="c", election=last) for name in names}),
    )
    return house


@pytest.mark.parametrize("path", ["brokers", "brokers/x/topics", "topics", "config", "elections"])
def test_a_page_of_many_is_looked_for_in_many_steps(path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """However many there are, others get their turn meanwhile."""
    house, steps = many(), list[int]()
    stepped(monkeypatch, steps.append)
    assert house.get(f"/v1/{path}?limit=2&after=t998")["next"] is None
    assert len(steps) >= MANY / ROWS_PER_STEP


def test_what_brokers_take_back_meanwhile_is_not_told(monkeypatch: pytest.MonkeyPatch) -> None:
    """The topics that were announced are of now, and now goes on between two steps; the page after it is as it was."""
    house = Told("t1", "t2", "t3")

    def withdrawn(steps: int) -> None:
        if steps == 2:
            house.known.topics.pop("t2")

    stepped(monkeypatch, withdrawn)
    page = house.get("/v1/brokers/x/topics?limit=2")
    assert (page["names"], [topic["topic"] for topic in page["topics"]], page["next"]) == (["t1"], ["t1"], "t2")


def test_a_step_encodes_one_schema(monkeypatch: pytest.MonkeyPatch) -> None:
    """One may have 64 KiB, a page 200 of them."""
    house, made, turns = Holding(), list[str](), list[int]()
    house.bench.done(ChangeConfig(scope="cluster", changes={"schemas.compatibility": "NONE"}))
    for number in range(SCHEMAS_MANY):
        schema = f'{{"type": "record", "name": "r{number}", "fields": []}}'
        house.bench.done(RegisterSchema(subject="s", schema=schema))
    item, sliced = Subjects._item, in_slices

    def counted(subjects: Subjects, *asked: Any) -> dict[str, object]:
        made.append("")
        return item(subjects, *asked)

    def noted(steps: Steps[Any], *asked: Any) -> None:
        def each() -> Steps[Any]:
            while True:
                try:
                    waits = next(steps)
                except StopIteration as end:
                    return end.value
                turns.append(len(made))
                yield waits

        sliced(each(), *asked)

    monkeypatch.setattr(Subjects, "_item", counted)
    monkeypatch.setattr("quorate.gateway.http.subjects.in_slices", noted)
    status, found = house.ask("GET", "/schemas?subjectPrefix=s")
    assert (status, [one["version"] for one in found]) == (200, list(range(1, SCHEMAS_MANY + 1)))
    assert all(after - before <= 1 for before, after in pairwise([0, *turns, len(made)]))
