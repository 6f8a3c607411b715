"""What a user may write after ``format("quorate")``."""

from argparse import ArgumentParser

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quorate.errors import UsageError
from quorate_spark.source.options import SourceOptions, epoch_ms
from quorate_spark.stream import command

NODES = "127.0.0.1:9872"


def test_spark_lowers_names_and_they_are_understood() -> None:
    """Options are found in any letter case, with their types; what begins with kafka. goes to the client."""
    found = SourceOptions.parse(
        {"nodes": NODES, "maxeventspertrigger": "7", "MIRROR": "true", "kafka.Security.Protocol": "SSL", "rack": "b"}
    )
    assert found == SourceOptions(
        nodes=NODES, max_events_per_trigger=7, mirror=True, client={"security.protocol": "SSL"}, rack="b"
    )


@given(
    st.builds(
        SourceOptions,
        nodes=st.just(NODES),
        mirror=st.booleans(),
        rack=st.text(),
        registry=st.sampled_from(["", "h:1", "h:1,[::1]:2"]),
        starting_offset=st.sampled_from(["", "earliest", "latest", "12"]),
        ending_time=st.sampled_from(["", "2026-01-02T03:04:05", "17"]),
        max_events_per_trigger=st.integers(1, 10**9),
        client=st.dictionaries(st.sampled_from(["ssl.ca.location", "sasl.username"]), st.text()),
    )
)
def test_what_is_written_for_spark_is_read_back(options: SourceOptions) -> None:
    """Options survive the way through Spark's text."""
    assert SourceOptions.parse(options.texts()) == options


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({}, "nodes"),
        ({"nodes": NODES, "maxEventPerTrigger": "5"}, "did you mean 'maxEventsPerTrigger'"),
        ({"nodes": NODES, "registry": "127.0.0.1"}, 'option "registry" 127.0.0.1: expected HOST:PORT'),
        ({"nodes": NODES, "nonsense": "5"}, "unknown option 'nonsense'"),
        ({"nodes": NODES, "maxEventsPerTrigger": "many"}, "maxEventsPerTrigger"),
        ({"nodes": NODES, "maxEventsPerTrigger": "0"}, "at least 1"),
        ({"nodes": NODES, "pollIntervalMs": "-1"}, "negative"),
        ({"nodes": NODES, "startingOffset": "-1"}, "startingOffset"),
        ({"nodes": NODES, "endingOffset": "earliest"}, "endingOffset"),
        ({"nodes": NODES, "startingOffset": "1", "startingTime": "2"}, "exclude"),
        ({"nodes": NODES, "startingTime": "yesterday"}, "not a time: 'yesterday'"),
        ({"nodes": NODES, "startingTime": "9" * 20}, "not a time: '99999999999999999999'"),
        ({"nodes": NODES, "startingTime": "9" * 5_000}, "not a time: '99999"),
        ({"nodes": NODES, "startingOffset": "9" * 20}, "startingOffset"),
    ],
)
def test_a_wrong_option_is_named(options: dict[str, str], told: str) -> None:
    """Each mistake is one sentence with the option's name, and a suggestion when one is near."""
    with pytest.raises(UsageError, match=told):
        SourceOptions.parse(options)


def test_a_stream_asks_the_nodes_it_was_told() -> None:
    """``--node`` says whose registry is asked, also where ``--nodes`` says where the log is. A batch of nothing is
    refused.
    """
    parser = ArgumentParser()
    command.arguments(parser)
    words = ["--nodes", NODES, "--node", "h:9873", "--sink", "sqlite:///x", "--checkpoint", "c"]
    source = command.settings(parser.parse_args(words)).source
    assert (source.nodes, source.registry) == (NODES, "h:9873")
    assert source.max_events_per_trigger == 10_000
    with pytest.raises(UsageError, match="maxEventsPerTrigger"):
        command.settings(parser.parse_args([*words, "--max-events-per-trigger", "0"]))


def test_times_are_utc_unless_they_say_otherwise() -> None:
    """ISO 8601 and epoch milliseconds; a bare time is UTC."""
    assert epoch_ms("2023-11-14T22:13:22") == epoch_ms("2023-11-14T23:13:22+01:00") == epoch_ms("1700000002000")


@pytest.mark.parametrize("time", ["1969-12-31T23:59:59.999", "1969-12-31T23:59:59.998", "0001-01-01"])
def test_before_the_epoch_is_the_epoch(time: str) -> None:
    """To Kafka -1 is the end of the log and -2 its beginning: a time never means either."""
    assert epoch_ms(time) == 0
