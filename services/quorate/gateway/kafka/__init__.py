"""The Kafka listener: the event log as a read-only topic for stock clients."""

from quorate.gateway.kafka.server import KafkaServer
from quorate.gateway.kafka.settings import KafkaSettings
from quorate.gateway.kafka.view import EventLogReader, KafkaNode, LogView

__all__ = ["EventLogReader", "KafkaNode", "KafkaServer", "KafkaSettings", "LogView"]
