"""How many bytes strangers may make a node hold: each connection has a part of the whole.

Rules: what is taken is given back, once, by whoever took it.
"""


class ByteBudget:
    """At most so many bytes at a time; what is taken here is taken from ``whole`` too."""

    def __init__(self, most: int, whole: "ByteBudget | None" = None) -> None:
        self._most, self._whole = most, whole
        self.taken = 0

    def take(self, count: int, *, long: bool = False, force: bool = False) -> bool:
        """So many more; False: there is no room, and nothing is taken. The last quarter is not for what is ``long``;
        ``force``: what there is no room for is taken too.
        """
        most = self._most - self._most // 4 if long else self._most
        if self.taken + count > most and not force:
            return False
        if self._whole is not None and not self._whole.take(count, long=long, force=force):
            return False
        self.taken += count
        return True

    def give(self, count: int) -> None:
        """So many less."""
        self.taken -= count
        if self._whole is not None:
            self._whole.give(count)


class RateLimit:
    """How often something may happen: ``burst`` times at once, and so many times a second."""

    def __init__(self, burst: float, per_s: float) -> None:
        self._burst, self._per_s = burst, per_s
        self._left, self._at = burst, 0.0

    def spend(self, now: float) -> bool:
        """Once more; False: too often."""
        if self._left < self._burst:
            self._left = min(self._burst, self._left + (now - self._at) * self._per_s)
        self._at = now
        self._left -= 1
        return self._left >= 0

    def earn(self, times: int) -> None:
        """So many times more, whatever it may have at most: what we did ourselves calls for them."""
        self._left += times

    def renew(self) -> None:
        """As at the beginning."""
        self._left = self._burst
