"""How many bytes strangers may make a node hold: each connection has a part of the whole.

Rules: what is taken is given back, once, by whoever took it.
"""


class Room:
    """At most so many bytes at a time; what is taken here is taken from ``whole`` too."""

    def __init__(self, most: int, whole: "Room | None" = None) -> None:
        self._most, self._whole = most, whole
        self.taken = 0

    def take(self, count: int) -> bool:
        """So many more; False: there is no room, and nothing is taken."""
        if self.taken + count > self._most or (self._whole is not None and not self._whole.take(count)):
            return False
        self.taken += count
        return True

    def give(self, count: int) -> None:
        """So many less."""
        self.taken -= count
        if self._whole is not None:
            self._whole.give(count)


class Allowance:
    """How often something may happen: ``burst`` times at once, and so many times a second."""

    def __init__(self, burst: float, per_s: float) -> None:
        self._burst, self._per_s = burst, per_s
        self._left, self._at = burst, float("-inf")

    def spend(self, now: float) -> bool:
        """Once more; False: too often."""
        self._left = min(self._burst, self._left + (now - self._at) * self._per_s) if self._at > 0 else self._burst
        self._at = now
        self._left -= 1
        return self._left >= 0

    def renew(self) -> None:
        """As at the beginning."""
        self._left = self._burst
