"""What a stock client (confluent-kafka) consumed, as the record it is: nothing of ours decodes it."""

from confluent_kafka import Message

from tests.batches import Record


def record_of(message: Message) -> Record:
    """Key, value, headers, time and offset; of an event none is missing."""
    headers, offset = message.headers(), message.offset()
    assert isinstance(headers, list)
    assert offset is not None
    named = tuple((name, value) for name, value in headers if isinstance(value, bytes))
    assert len(named) == len(headers), "every header has a value"
    return Record(message.key(), message.value(), named, message.timestamp()[1], offset)
