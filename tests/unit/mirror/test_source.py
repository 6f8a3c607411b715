"""The source of a mirror is what a node's own Kafka listener serves."""

import time

import pytest

pytest.importorskip("confluent_kafka", reason="projections are not installed (make setup-all)")

from quorate.gateway.kafka import KafkaSettings
from quorate_projections.mirror.kafka import EventSource
from quorate_projections.mirror.ports import NodeReport
from quorate_projections.mirror.settings import MirrorSettings
from tests.kafka_tools.fakes import ServedLog


@pytest.mark.parametrize("topic", [KafkaSettings().topic, "ctl.events"])
def test_a_node_s_topic_is_read_however_it_is_called_there(topic: str) -> None:
    """The node says how: nobody has to tell the mirror."""
    with ServedLog(settings=KafkaSettings(topic=topic)) as served:
        served.append(3)
        source = EventSource(NodeReport(True, "c", served.bootstrap, 1), MirrorSettings(deadline_s=5.0), time.monotonic)
        try:
            assert [source.at(offset).offset for offset in (0, 2, 1)] == [0, 2, 1]
            assert source.end() == 3
        finally:
            source.close()
