"""Two stock MQTT brokers with the plug-in, three nodes, stock clients: a session is where its client is, and no message
that was acknowledged is lost on the way. Each story is read back, with kcat and on the page.
"""

import itertools
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from threading import Event, Thread

import pytest

from quorate.events import SessionOwnerLost, WillAcknowledged, WillDecided, WillHandedOver
from tests.browser.screen import Screen
from tests.browsers import headless, showing
from tests.clusters import Started, until, up
from tests.kcat import read_back
from tests.mqtt.brokers import Broker, Client
from tests.mqtt.log import owners, read
from tests.peers import peer

WAITING_MAX = 20
"""Messages that a publisher has sent and nobody acknowledged: a slow machine is not to be flooded."""
Make = Callable[..., Client]


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Started]:
    """Three nodes."""
    peer("amqtt")
    with pytest.MonkeyPatch.context() as patch, up(tmp_path_factory.mktemp("mqtt") / "c") as started:
        patch.syspath_prepend(str(peer("paho")))
        yield started


@pytest.fixture(scope="module")
def page(cluster: Started) -> Iterator[Screen]:
    """A window on the page of this cluster."""
    with headless() as browser, showing(browser, cluster) as shown:
        yield shown


@pytest.fixture
def two(cluster: Started, tmp_path: Path) -> Iterator[tuple[Broker, Broker]]:
    """Two brokers, each told of all nodes, in different orders."""
    nodes = [node["grpc"] for node in cluster.nodes]
    with ExitStack() as stack:
        found = list[Broker]()
        for name, order in (("one", nodes), ("two", nodes[::-1])):
            found.append(Broker(f"{tmp_path.name}.{name}", order, tmp_path))
            stack.callback(found[-1].kill)
        yield found[0], found[1]


@pytest.fixture
def client() -> Iterator[Make]:
    """Makes clients; they are gone afterwards."""
    with ExitStack() as stack:

        def make(name: str, will: tuple[str, bytes] | None = None, *, returns: bool = True) -> Client:
            made = Client(name, will, returns=returns)
            stack.callback(made.disconnect)
            return made

        yield make


def log(cluster: Started) -> str:
    """Where it is read: at every node."""
    return ",".join(node["kafka"] for node in cluster.nodes)


def check(cluster: Started, page: Screen, client: str, topics: list[str], *brokers: Broker) -> None:
    """Kcat and the page have its session: these opened it, in this order; the page shows it at the last of them, with
    these subscriptions, which it was given once.
    """
    read = read_back(page, cluster, f"session/{client}")
    opened = [fact["value"]["member"] for fact in read if fact["type"] == "SessionOpened"]
    assert opened == [broker.name for broker in brokers]
    changed = [fact["value"] for fact in read if fact["type"] == "SubscriptionsChanged"]
    assert [added["filter"] for change in changed for added in change["added"]] == topics
    page.open(f"/session/{client}").passes(read[-1]["offset"])
    assert f"Connected to {brokers[-1].name}" in page.text(".headline .lead")
    assert page.texts("#p-subscriptions tbody th") == topics
    assert page.texts("#p-history .row .ty") == [fact["type"] for fact in read[::-1]]


def test_a_session_is_found_at_the_other_broker(
    cluster: Started, page: Screen, two: tuple[Broker, Broker], client: Make
) -> None:
    """What was published while the client was away is delivered by the broker it comes back to, in its order and once,
    though the broker that had the session, and acknowledged the messages, was killed right after that.
    """
    one, other = two
    sensor, station = client("sensor"), client("station")
    assert sensor.connect(one) is False
    sensor.subscribe("site/+/state")
    sensor.disconnect()
    station.connect(one)
    sent = [b"%d" % number for number in range(50)]
    for payload in sent:
        station.publish("site/3/state", payload)
    until(lambda: station.acknowledged() == sent, "50 messages acknowledged")
    one.kill()
    sensor = client("sensor")
    assert sensor.connect(other) is True
    until(lambda: len(sensor.received) >= len(sent), "50 messages delivered")
    assert sensor.received == sent
    check(cluster, page, "sensor", ["site/+/state"], one, other)
    opened, *inbox = read_back(page, cluster, "session/station", "key/mqtt/inbox/sensor/")
    assert (opened["type"], opened["value"]["member"]) == ("SessionOpened", one.name)
    assert len({fact["key"] for fact in inbox if fact["type"] == "KeyPut"}) == len(sent)


def test_who_connects_elsewhere_is_let_go(
    cluster: Started, page: Screen, two: tuple[Broker, Broker], client: Make
) -> None:
    """A connection that still stands at one broker is closed when its client opens one at the other; what is published
    then is delivered there.
    """
    one, other = two
    before, after, friend = client("twin", returns=False), client("twin"), client("friend")
    before.connect(one)
    before.subscribe("twins")
    assert after.connect(other) is True
    assert before.gone.wait(10), "the connection of before is closed"
    friend.connect(one)
    friend.publish("twins", b"hello")
    until(lambda: after.received, "a message")
    assert (before.received, after.received) == ([], [b"hello"])
    had = owners(read(log(cluster)))
    assert [member for _, member in had["twin"]] == [one.name, other.name]
    check(cluster, page, "twin", ["twins"], one, other)
    check(cluster, page, "friend", [], one)


def test_a_broker_that_was_lost_for_a_while_lets_go_whom_the_other_has(
    cluster: Started, page: Screen, two: tuple[Broker, Broker], client: Make
) -> None:
    """Its connection of before still stands when it goes on, and is closed then: nobody took the client from it, for
    it counted as lost.
    """
    one, other = two
    before, after = client("stray", returns=False), client("stray")
    before.connect(one)
    before.subscribe("strays")
    one.freeze()

    def lost() -> bool:
        return any(isinstance(event, SessionOwnerLost) and event.member == one.name for event in read(log(cluster)))

    until(lost, "the log says that the broker is lost")
    assert after.connect(other) is True
    assert not before.gone.is_set()
    one.thaw()
    assert before.gone.wait(10), "the connection of before is closed"
    after.publish("strays", b"hello")
    until(lambda: after.received, "a message")
    assert (before.received, after.received) == ([], [b"hello"])
    had = owners(read(log(cluster)))
    assert [member for _, member in had["stray"]] == [one.name, other.name]
    check(cluster, page, "stray", ["strays"], one, other)
    owners_told = [(fact["type"], fact["value"]["member"]) for fact in read_back(page, cluster, "session-owner/")]
    assert ("SessionOwnerLost", one.name) in owners_told


def test_a_broker_is_killed(cluster: Started, page: Screen, two: tuple[Broker, Broker], client: Make) -> None:
    """A publisher at the surviving broker goes on all the while, and the session moves: nothing that was acknowledged
    to the publisher is lost, not even a message that was just on its way to the reader; the session has one owner at
    any offset, of epochs that grow, and is at the second broker in the end.
    """
    one, other = two
    meter, reader, over = client("meter"), client("reader"), Event()
    reader.connect(one)
    reader.subscribe("meters/#")
    meter.connect(other)

    def publish() -> None:
        number = itertools.count()
        while not over.wait(0.01):
            if meter.waiting() < WAITING_MAX:
                meter.publish("meters/3", b"%d" % next(number))

    publishing = Thread(target=publish)
    publishing.start()
    try:
        until(lambda: len(reader.received) > 50, "messages by the first broker")
        reader.busy = True
        until(lambda: reader.left_out, "a message on its way")
        one.kill()
        reader.busy = False
        before = len(meter.acknowledged())
        until(lambda: len(meter.acknowledged()) > before + 50, "messages that the second broker took meanwhile")
        assert reader.connect(other) is True
        arrived = len(reader.received)
        until(lambda: len(reader.received) > arrived + 100, "messages by the second broker")
    finally:
        over.set()
        publishing.join()
    until(lambda: set(meter.acknowledged()) <= set(reader.received), "every acknowledged message")
    first = list(dict.fromkeys(reader.received))
    assert first == sorted(first, key=int), "in their order, but for those that came twice"
    had = owners(read(log(cluster)))
    assert [member for _, member in had["reader"]] == [one.name, other.name]
    check(cluster, page, "reader", ["meters/#"], one, other)
    check(cluster, page, "meter", [], other)


def test_a_will_is_published_once(cluster: Started, page: Screen, two: tuple[Broker, Broker], client: Make) -> None:
    """The will of a client whose broker is killed is published by the broker that is told to, and by no other."""
    one, other = two
    heir, watcher = client("heir", ("wills/heir", b"gone")), client("watcher")
    watcher.connect(other)
    watcher.subscribe("wills/#")
    heir.connect(one)
    one.kill()
    until(lambda: watcher.received, "the will")

    def told() -> list[object]:
        kinds = (WillDecided, WillHandedOver, WillAcknowledged)
        return [event for event in read(log(cluster)) if isinstance(event, kinds) and event.client == "heir"]

    until(lambda: isinstance(told()[-1], WillAcknowledged), "the will is acknowledged")
    time.sleep(1)  # A second one would have come.
    decided, handed, acknowledged = told()
    assert isinstance(decided, WillDecided)
    assert isinstance(handed, WillHandedOver)
    assert isinstance(acknowledged, WillAcknowledged)
    assert (handed.member, acknowledged.member) == (other.name, other.name)
    assert watcher.received == [b"gone"]
    check(cluster, page, "watcher", ["wills/#"], other)
    facts = [fact for fact in read_back(page, cluster, "session/heir", "will/") if fact["value"]["client"] == "heir"]
    assert [(fact["type"], fact["value"]["will_topic"]) for fact in facts[:1]] == [("SessionOpened", "wills/heir")]
    wills = [(fact["type"], fact["value"].get("member")) for fact in facts if fact["type"].startswith("Will")]
    assert wills == [("WillDecided", None), ("WillHandedOver", other.name), ("WillAcknowledged", other.name)]
