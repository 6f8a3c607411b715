"""The rule of a route, which nodes and views share."""

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from quorate.model.routes import BrokerData, QueueData, addresses, compose, held
from quorate.model.state import Replica


def replicas() -> st.SearchStrategy[tuple[Replica, ...]]:
    """Replicas of a set, by their ids."""
    return st.lists(
        st.builds(
            Replica, broker_id=st.integers(1, 5), address=st.text("ab", min_size=1), registered=st.booleans(),
            fenced=st.booleans(),
        ),
        unique_by=lambda one: one.broker_id,
    ).map(tuple)  # fmt: skip


@given(replicas(), st.none() | st.integers(1, 5))
def test_who_serves_stands_there_and_the_master_under_0(brokers: tuple[Replica, ...], master: int | None) -> None:
    """Whoever is registered and not fenced, once; nobody else."""
    found = addresses(master, brokers)
    serving = {one.broker_id: one for one in brokers if one.registered and not one.fenced}
    assert len(found) == len(serving)
    for broker_id, one in serving.items():
        assert found["0" if broker_id == master else str(broker_id)] == one.address
    assert ("0" in found) == (master in serving)


@given(st.dictionaries(st.text("abc", min_size=1), st.booleans()))
def test_a_set_nobody_of_which_serves_is_in_no_route(sets: dict[str, bool]) -> None:
    """The others are, by their names, queues and brokers alike."""
    parts = [
        (
            QueueData(broker_name=name, read_queue_nums=1, write_queue_nums=1, perm=6, topic_sys_flag=0),
            BrokerData(cluster="C", broker_name=name, broker_addrs={"0": "a:1"} if serves else {}),
        )
        for name, serves in sets.items()
    ]
    route = compose(parts)
    expected = sorted(name for name, serves in sets.items() if serves)
    assert [one.broker_name for one in route.queue_datas] == expected
    assert [one.broker_name for one in route.broker_datas] == expected


def test_a_set_holds_what_it_announced() -> None:
    """What any of its brokers announced; nothing stands for everything."""
    assert held([(), ("t", "u"), ("u", "v")]) == {"t", "u", "v"}
    assert held([(), ()]) == set()


def test_a_zone_nobody_told_is_not_written() -> None:
    """Fastjson leaves out what is null, and so does a route."""
    one = BrokerData(cluster="C", broker_name="b", broker_addrs={"0": "a:1"})
    assert b"zoneName" not in msgspec.json.encode(one)
    assert b'"zoneName":"z"' in msgspec.json.encode(msgspec.structs.replace(one, zone_name="z"))
