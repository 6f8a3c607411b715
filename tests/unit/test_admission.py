"""Who stays and who goes when all places are taken."""

import pytest

from quorate.admission import Admission


def full_of(guests: str, **limits: int) -> tuple[Admission[str], dict[str, set[str]]]:
    """Three places, one letter a guest, all from one address; and who is busy or known, to be filled."""
    said: dict[str, set[str]] = {"busy": set(), "known": set()}
    settings = {"places": 3, "reserved": 1, "per_address": 9} | limits
    admission = Admission[str](
        **settings, busy=lambda guest: guest in said["busy"], known=lambda guest: guest in said["known"]
    )
    for guest in guests:
        assert admission.enter(guest, "here") is None
    return admission, said


def test_whoever_is_longest_without_an_answer_goes_first() -> None:
    """Arrival counts until there is an answer; then that does, where it proves nothing."""
    admission, _ = full_of("abc", per_address=0)
    assert admission.enter("d", "here") == "a"
    assert not admission.answered("b")
    assert [admission.enter(guest, "here") for guest in "ef"] == ["c", "d"]
    assert admission.enter("g", "here") == "b"
    assert (len(admission), admission.evicted) == (3, 4)


def test_the_proven_stay_and_leave_a_reserve() -> None:
    """However many ask, the last places change hands."""
    admission, _ = full_of("abc")
    assert [admission.answered(guest) for guest in "abc"] == [True, True, False]
    assert [admission.enter(guest, "there") for guest in "de"] == ["c", "d"]
    assert admission.leave("a")
    assert admission.answered("e")
    assert admission.enter("f", "there") is None
    assert admission.enter("g", "there") == "f"


def test_an_address_proves_only_so_many() -> None:
    """And again when one of them is gone; another address has a count of its own."""
    admission, _ = full_of("abc", places=9, reserved=0, per_address=2)
    assert [admission.answered(guest) for guest in "abc"] == [True, True, False]
    admission.enter("d", "there")
    assert admission.answered("d")
    assert admission.leave("a")
    assert admission.answered("c")


def test_the_busy_go_after_the_idle_and_before_the_newest() -> None:
    """A request under way is some protection, but no way to keep newcomers out."""
    admission, said = full_of("abc")
    said["busy"] |= {"a", "b"}
    assert admission.enter("d", "here") == "c"
    said["busy"].add("d")
    assert admission.enter("e", "here") == "a"


def test_the_known_never_go() -> None:
    """Registered brokers are proven when it matters, whatever their address; then it is the newest that must go."""
    admission, said = full_of("abc", per_address=0)
    said["known"] |= {"a", "b", "c"}
    assert admission.enter("d", "here") == "d"
    assert "a" in admission
    assert "d" not in admission
    assert admission.leave("b")
    assert admission.enter("e", "here") is None


@pytest.mark.parametrize("guest", ["a", "x"])
def test_who_is_gone_is_not_there(guest: str) -> None:
    """Leaving twice, or never having come, changes nothing."""
    admission, _ = full_of("ab")
    admission.leave("a")
    assert not admission.leave(guest)
    assert admission.answered(guest)
    assert admission.guests() == ["b"]
