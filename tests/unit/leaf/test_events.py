"""The native readers and writers of events, beside the Python ones that were generated with them."""

import random
from collections.abc import Callable
from functools import cache
from importlib.util import module_from_spec, spec_from_file_location
from types import ModuleType, SimpleNamespace
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from quorate import leaf
from quorate.events import Event, SyncStateSetAltered, _generated
from tests.unit.events.strategies import any_event
from tests.unit.leaf.kit import DeclinedError, library, outcome, references
from tests.unit.leaf.test_leaf import hurt

PLAIN = {
    "BrokerDataCleaned", "BrokerFenced", "BrokerIdApplied", "BrokerUnfenced", "FeatureLevelChanged",
    "SyncStateSetAltered", "TopicDeleted",
}  # fmt: skip
"""Events that the leaf takes whole."""
HOT = SyncStateSetAltered(
    cluster="c", broker_set="set-ä", master=1, master_epoch=70_000, old=(1, 2), new=(1, 2, 300), sync_state_set_epoch=2
)


def handed_on(made: Callable[..., Any]) -> Callable[..., Any]:
    """A maker of native functions that hand nothing on."""

    def declined(*_: Any) -> Any:
        raise DeclinedError

    return lambda _pure, *layout: made(declined, *layout)


@cache
def module(build: str) -> ModuleType:
    """The generated module once more: ``pure``, ``native`` with the Python functions behind, or ``alone`` without."""
    assert _generated.__file__
    spec = spec_from_file_location(f"generated_{build}", _generated.__file__)
    assert spec and spec.loader
    found = module_from_spec(spec)
    own = SimpleNamespace(writer=handed_on(library().writer), reader=handed_on(library().reader))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(leaf, "_library", {"pure": None, "native": library(), "alone": own}[build])
        spec.loader.exec_module(found)
    return found


def writer(build: str, event: Event) -> Callable[..., Any]:
    """The function that writes events of that type."""
    of = module(build)
    found: Callable[..., Any] = of.WRITERS[getattr(of, type(event).__name__)]
    return found


def read(build: str, schema_id: int, data: bytes) -> object:
    """The type, the fields and their types, and where it ends."""

    def told(data: bytes, at: int) -> Any:
        event, end = module(build).READERS[schema_id](data, at)
        return type(event).__name__, [(name, getattr(event, name)) for name in event.__struct_fields__], end

    if build == "alone":
        return outcome(told, (data, 5))
    return outcome(lambda *call: plainly(told(*call)), (data, 5))


def plainly(value: Any) -> Any:
    """Nested records as their fields: their classes are another in each copy of the module."""
    if isinstance(value, msgspec.Struct):
        return [plainly(getattr(value, name)) for name in value.__struct_fields__]
    if isinstance(value, tuple | list):
        return type(value)(plainly(part) for part in value)
    return value


@given(any_event())
def test_events_are_written_and_read_alike(event: Event) -> None:
    """Each event's bytes are the reference's, and what is read of them too; the plain ones by the leaf alone, unless a
    number takes all of its ten bytes.
    """
    data = writer("pure", event)(event)
    assert outcome(writer("native", event), (event,)) == outcome(writer("pure", event), (event,))
    schema_id = int.from_bytes(data[1:5], "big")
    assert read("native", schema_id, data) == read("pure", schema_id, data)
    if type(event).__name__ in PLAIN:
        assert writer("alone", event)(event) == data
        wide = any(abs(number) >= 2**62 for number in integers(event))
        assert wide or read("alone", schema_id, data) == read("pure", schema_id, data)


def integers(event: Event) -> list[int]:
    """All numbers in it."""
    values = [getattr(event, name) for name in event.__struct_fields__]
    return [one for value in values for one in (value if isinstance(value, tuple) else [value]) if isinstance(one, int)]


@given(any_event(), st.integers(0, 2**32), st.sampled_from(sorted(_generated.READERS)))
def test_hostile_events_are_refused_alike(event: Event, seed: int, schema_id: int) -> None:
    """Whatever is done to the bytes, and whatever schema they claim: the same event, or the same error."""
    dice, data = random.Random(seed), writer("pure", event)(event)
    own = int.from_bytes(data[1:5], "big")
    for bad in [hurt(data, dice) for _ in range(20)]:
        for known in (own, schema_id):
            assert read("native", known, bad) == read("pure", known, bad)


@pytest.mark.parametrize(
    "data",
    [
        b"\x02\x00", b"\x01\x02\x02\x00", b"\x02\x02\x02\x04\x00", b"\x80\x80\x80\x80\x80\x80\x80\x80\x80\x01",
        b"\x80\x80\x80\x80\x80\x80\x80\x80\x80\x80\x01", b"\x80\x00", b"\xff\xff\xff\xff\x1f", b"\x00",
    ],
    ids=lambda data: data.hex(),
)  # fmt: skip
@pytest.mark.parametrize("place", [7, 8, 9, 10, 12, 14])
def test_odd_encodings_are_read_alike(data: bytes, place: int) -> None:
    """Arrays in several blocks, or with a size; numbers longer than need be, of ten bytes, of eleven, too large."""
    hot = msgspec.structs.replace(HOT, cluster="", broker_set="", master_epoch=1)
    whole = writer("pure", hot)(hot)
    for bad in (whole[:place] + data + whole[place + 1 :], whole[:place] + data):
        assert read("native", 15, bad) == read("pure", 15, bad)


@pytest.mark.parametrize("name", HOT.__struct_fields__)
@pytest.mark.parametrize(
    "value", [None, True, 1.5, 2**31, 2**63, -(2**63) - 1, "\ud800", b"x", (), (True,), ("x",), (2**63,), [1]], ids=repr
)
def test_what_no_schema_holds_is_refused_alike(name: str, value: object) -> None:
    """A field of another type, or beyond its range: the reference's bytes, or its very error."""
    odd = msgspec.structs.replace(HOT, **{name: value})
    assert outcome(writer("native", HOT), (odd,)) == outcome(writer("pure", HOT), (odd,))
    for call in ((), (HOT, HOT), (object(),), (None,)):
        assert outcome(writer("native", HOT), call)[:1] == outcome(writer("pure", HOT), call)[:1]  # type: ignore[index]


def test_nothing_is_kept_of_an_event() -> None:
    """A thousand times written and read, taken and handed on: as many references as before."""
    data = writer("pure", HOT)(HOT)
    kept = [HOT, HOT.new, HOT.broker_set, data]
    before = [references(one) for one in kept]
    for _ in range(1000):
        writer("native", HOT)(HOT)
        module("native").READERS[15](data, 5)
        with pytest.raises(DeclinedError):
            module("alone").READERS[15](data[:-1], 5)
        with pytest.raises(DeclinedError):
            writer("alone", HOT)(object())
    assert [references(one) for one in kept] == before


@pytest.mark.parametrize(
    "layout", [(b"", (), "s"), (b"", ("a",), "x"), (b"", ("a",) * 17, "s" * 17)], ids=["short", "unknown", "long"]
)
def test_a_layout_that_cannot_be_is_an_error(layout: Any) -> None:
    """As many kinds as names, each one that the leaf knows, and no more than it has room for."""
    for made in (library().writer, library().reader):
        with pytest.raises(ValueError, match="not a layout"):
            made(None, *layout)
