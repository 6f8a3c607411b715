"""Can what was written by one Avro schema be read by another? And what a compatibility level asks of a new version.

Rules: pure; Avro's schema resolution as Java's ``SchemaCompatibility`` judges it, which Confluent's registry asks. The
work is bounded: ``Comparisons`` counts the pairs of types that one decision compares, types are followed ``DEPTH_MAX``
deep, and of a pair at most ``TOLD_MAX`` sentences are kept, each with the end of a long name.
Source: Avro 1.12 specification, "Schema Resolution"; Confluent Schema Registry, "Schema Evolution and Compatibility".
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from quorate.metadata.avro_schemas import Field, Type

COMPARISONS_MAX: Final = 20_000
TOLD_MAX: Final = 20
"""Sentences that an answer has."""
DEPTH_MAX: Final = 200
"""Types within types, also by name: each takes up to four of Python's thousand frames."""
NAME_MAX: Final = 200
"""Characters of a place, or of a type's name, that a sentence has."""

_PROMOTIONS: Final[Mapping[str, tuple[str, ...]]] = {
    "long": ("int",),
    "float": ("int", "long"),
    "double": ("int", "long", "float"),
    "string": ("bytes",),
    "bytes": ("string",),
}
"""What each type reads beside its own."""


class TooManyComparisonsError(Exception):
    """These schemas are too large to be compared in one decision."""


class Comparisons:
    """How many there were."""

    def __init__(self, most: int = COMPARISONS_MAX) -> None:
        self._left = most

    def one(self) -> None:
        """One more. Raises TooManyComparisonsError."""
        self._left -= 1
        if self._left < 0:
            raise TooManyComparisonsError


def breaks(level: str, new: Type, before: Sequence[tuple[int, Type]]) -> list[str]:
    """Why a new version may not follow those before it (number and types, in order), a sentence each; empty: it may.
    Raises TooManyComparisonsError.
    """
    if level == "NONE" or not before:
        return []
    direction, _, transitive = level.partition("_")
    comparisons = Comparisons()
    told: list[str] = []
    for version, old in reversed(before if transitive else before[-1:]):
        if direction in ("BACKWARD", "FULL"):
            told += [f"cannot read version {version}: {why}" for why in unreadable(new, old, comparisons)]
        if direction in ("FORWARD", "FULL"):
            told += [f"cannot be read by version {version}: {why}" for why in unreadable(old, new, comparisons)]
        if len(told) >= TOLD_MAX:
            break
    return told[:TOLD_MAX]


def unreadable(reader: Type, writer: Type, comparisons: Comparisons) -> list[str]:
    """Why a reader cannot read what a writer wrote; empty: it can. Raises TooManyComparisonsError."""
    return _Judge(comparisons).judge(reader, writer, "")


class _Judge:
    """One reader and one writer."""

    def __init__(self, comparisons: Comparisons) -> None:
        self._comparisons = comparisons
        self._judged: dict[tuple[int, int], list[str]] = {}
        """Of pairs of named types; while one is judged it is taken to be readable."""
        self._readable: list[tuple[int, int]] = []
        """Those that are, as far as is known: in the order in which they were begun."""

    def judge(self, reader: Type, writer: Type, where: str, depth: int = 0) -> list[str]:
        """What is wrong at a place, in at most ``TOLD_MAX`` sentences. Raises TooManyComparisonsError."""
        self._comparisons.one()
        if depth >= DEPTH_MAX:
            raise TooManyComparisonsError
        if writer.kind == "union":
            told = _Told()
            for branch in writer.branches:
                if told.are_enough(self.judge(reader, branch, where, depth + 1)):
                    break
            return told.first()
        if reader.kind == "union":
            if any(not self.judge(branch, writer, where, depth + 1) for branch in reader.branches):
                return []
            return [f"{where or '/'}: no branch of the reader's union reads {_end(writer.label)}"]
        if reader.kind != writer.kind:
            if writer.kind in _PROMOTIONS.get(reader.kind, ()):
                return []
            return [f"{where or '/'}: the reader has {_end(reader.label)}, the writer {_end(writer.label)}"]
        if reader.branches:
            return self.judge(reader.branches[0], writer.branches[0], _end(f"{where}/{reader.kind}"), depth + 1)
        return self._judge_named(reader, writer, where, depth) if reader.name else []

    def _judge_named(self, reader: Type, writer: Type, where: str, depth: int) -> list[str]:
        pair = (id(reader), id(writer))
        if pair in self._judged:
            return self._judged[pair]
        count = len(self._readable)
        self._readable.append(pair)
        self._judged[pair] = []
        told = self._differ(reader, writer, where, depth)
        if told:
            # What was found readable meanwhile may rest on this pair's being so.
            for other in self._readable[count:]:
                del self._judged[other]
            del self._readable[count:]
            self._judged[pair] = told
        return told

    def _differ(self, reader: Type, writer: Type, where: str, depth: int) -> list[str]:
        here = where or "/"
        if _last(reader.name) != _last(writer.name) and writer.name not in reader.aliases:
            return [f"{here}: the reader has {_end(reader.name)}, the writer {_end(writer.name)}"]
        name = _end(reader.name)
        match reader.kind:
            case "fixed":
                if reader.size == writer.size:
                    return []
                return [f"{here}: {name} has {reader.size} bytes at the reader, {writer.size} at the writer"]
            case "enum":
                unknown = [] if reader.symbol else [one for one in writer.symbols if one not in reader.known]
                lacking = f"{here}: {name} lacks {', '.join(map(_end, unknown[:5]))}, and has no default"
                return [lacking] if unknown else []
            case _:
                return self._differ_in_fields(reader, writer, where, depth)

    def _differ_in_fields(self, reader: Type, writer: Type, where: str, depth: int) -> list[str]:
        written = {field.name: field for field in writer.fields}
        told = _Told()
        for field in reader.fields:
            at, why = _end(f"{where}/{field.name}"), list[str]()
            found = _written(field, written)
            if found is not None:
                why = self.judge(field.type, found.type, at, depth + 1)
            elif not field.has_default:
                why = [f"{at}: the writer has no such field, and the reader no default"]
            if told.are_enough(why):
                break
        return told.first()


class _Told:
    """Sentences, each once: what is wrong where a pair is met first is wrong wherever it is met."""

    def __init__(self) -> None:
        self._told: dict[str, None] = {}

    def are_enough(self, more: Iterable[str]) -> bool:
        """With these, are there as many as an answer has?"""
        self._told.update(dict.fromkeys(more))
        return len(self._told) >= TOLD_MAX

    def first(self) -> list[str]:
        """As many as an answer has."""
        return list(self._told)[:TOLD_MAX]


def _written(field: Field, written: Mapping[str, Field]) -> Field | None:
    return next((written[name] for name in (field.name, *field.aliases) if name in written), None)


def _end(text: str) -> str:
    return text if len(text) <= NAME_MAX else f"…{text[-NAME_MAX:]}"


def _last(name: str) -> str:
    return name.rpartition(".")[2]
