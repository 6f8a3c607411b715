"""Flags follow from a settings struct."""

from argparse import ArgumentParser
from typing import Annotated

import msgspec
import pytest
from msgspec import Meta

from quorate.bounds import bounded
from quorate.errors import UsageError
from quorate.flags import ADDRESSES, add_flags, converted, typed


class Example(msgspec.Struct, frozen=True, kw_only=True):
    needed: Annotated[str, Meta(description="what has no default has no flag of this kind")]
    by_hand: tuple[str, ...] = ()
    node: Annotated[str, Meta(description="where", extra=ADDRESSES)] = ""
    wait_s: Annotated[float, Meta(description="100 % of it")] = 1.5
    once: Annotated[bool, Meta(description="and end")] = False

    def __post_init__(self) -> None:
        bounded(self)


def flags(*words: str) -> dict[str, object]:
    """What these words set."""
    parser = ArgumentParser()
    add_flags(parser, Example)
    return typed(parser.parse_args(words), Example)


def test_what_is_given_is_converted_and_the_rest_is_left_out() -> None:
    """A flag has the type of its field; one that was not typed sets nothing."""
    assert flags() == {}
    assert flags("--wait-s", "2", "--once", "--node", "a:1") == {"wait_s": 2.0, "once": True, "node": "a:1"}


def test_the_help_says_what_is_taken_and_the_default() -> None:
    """A field without a default, or without a description, has no flag; an empty default is not shown."""
    parser = ArgumentParser(prog="p")
    add_flags(parser, Example)
    lines = [" ".join(line.split()) for line in parser.format_help().splitlines()]
    assert lines[-3:] == ["--node HOST:PORT,… where", "--wait-s S 100 % of it (1.5)", "--once and end"]
    assert "by-hand" not in " ".join(lines) and "needed" not in " ".join(lines)


def test_every_problem_is_named_at_once() -> None:
    """A word for a number, and a name that is none, with the one that was meant."""
    with pytest.raises(UsageError) as raised:
        converted({"wait_s": "soon", "nod": "a:1"}, Example)
    assert "wait_s: Expected `float`" in str(raised.value)
    assert "nod: unknown setting; did you mean node?" in str(raised.value)


def test_a_flag_that_is_wrong_is_named_as_it_was_typed() -> None:
    """Who typed a flag is told of the flag."""
    with pytest.raises(UsageError, match="--wait-s: Expected"):
        flags("--wait-s", "soon")


def test_a_number_with_a_description_is_bounded_too() -> None:
    """The least that a setting may be holds for a field that describes itself."""
    with pytest.raises(UsageError, match="wait_s must be above 0"):
        Example(needed="x", wait_s=0.0)
