"""A stamp is taken from whatever carries its fields."""

import msgspec
import pytest

from quorate.events import Stamp, stamp_of


class Line(msgspec.Struct):
    offset: int
    term: int
    time_ms: int
    text: str = "beside it"
    principal: str = "somebody"


def test_a_stamp_is_taken_from_a_record_that_carries_more() -> None:
    """Fields of a stamp are taken, others left; what the record does not have is the stamp's default."""
    assert stamp_of(Line(7, 2, 1_000)) == Stamp(offset=7, term=2, time_ms=1_000, principal="somebody")


def test_what_has_no_offset_has_no_stamp() -> None:
    """A record that lacks what a stamp needs is refused."""
    with pytest.raises(msgspec.ValidationError, match="offset"):
        stamp_of(object())
