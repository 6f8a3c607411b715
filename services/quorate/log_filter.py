"""Says what a library repeats ever more seldom: a node that is away is news once, not ten times a second."""

import logging
from typing import Final

FIRST_S: Final = 2.0
LONGEST_S: Final = 300.0
"""Between two of the same; each pause is twice the one before. Silence for twice as long begins anew."""

LOGGERS: Final = ("aiokafka", "aiokafka.client", "aiokafka.conn", "aiokafka.cluster", "aiokafka.consumer.fetcher")
"""A filter sees only what is said by its own logger, not by those below it."""


class RepeatFilter(logging.Filter):
    """Lets a text (before its arguments are filled in) through when its pause is over."""

    def __init__(self) -> None:
        super().__init__()
        self._said: dict[str, tuple[float, float]] = {}
        """Text → (when it was said last, the pause after that)."""

    def filter(self, record: logging.LogRecord) -> bool:
        """May this be said?"""
        text, now = str(record.msg)[:200], record.created
        last_time, pause = self._said.get(text, (0.0, 0.0))
        if now - last_time < pause:
            return False
        again = FIRST_S if now - last_time > 2 * LONGEST_S else min(2 * pause, LONGEST_S)
        if len(self._said) >= 100:
            self._said.clear()
        self._said[text] = now, again or FIRST_S
        return True


def throttle_repeats() -> None:
    """Of everything aiokafka says."""
    quiet = RepeatFilter()
    for name in LOGGERS:
        logging.getLogger(name).addFilter(quiet)
