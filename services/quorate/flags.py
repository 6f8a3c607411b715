"""Command-line flags that follow from a settings struct.

Rules: each field with a default and a description has a flag of its name; its text is converted, and bounded, by the
field's type. Every problem is listed at once, an unknown name with a suggestion. What takes more than a number, a word
or a yes has no description, and a flag that its command makes by hand.
"""

import difflib
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, get_args

import msgspec
from msgspec import Meta

from quorate.errors import UsageError

if TYPE_CHECKING:
    from argparse import Namespace, _ActionsContainer

ADDRESSES = {"metavar": "HOST:PORT,…"}
"""``extra`` of a description: what the help says instead of the last word of the field's name."""


def described(kind: type[msgspec.Struct]) -> dict[str, tuple[msgspec.structs.FieldInfo, Meta]]:
    """The fields that have a flag, with their descriptions, in order."""
    notes = {
        field.name: (field, note)
        for field in msgspec.structs.fields(kind)
        for note in get_args(field.type)[1:]
        if isinstance(note, Meta) and note.description
    }
    return {name: note for name, note in notes.items() if note[0].default is not msgspec.NODEFAULT}


def flag(name: str) -> str:
    """Of a field."""
    return "--" + name.replace("_", "-")


def add_flags(parser: "_ActionsContainer", kind: type[msgspec.Struct]) -> None:
    """One for each such field."""
    for name, (field, note) in described(kind).items():
        text = str(note.description).replace("%", "%%")
        text += "" if field.default == "" or field.default is False else f" ({field.default})"
        if isinstance(field.default, bool):
            parser.add_argument(flag(name), action="store_const", const="true", dest=name, help=text)
        else:
            metavar = (note.extra or {}).get("metavar") or name.rpartition("_")[2].upper()
            parser.add_argument(flag(name), dest=name, metavar=metavar, help=text)


def texts(options: "Namespace", kind: type[msgspec.Struct]) -> dict[str, str]:
    """The flags that were given, by their fields."""
    given = {name: getattr(options, name) for name in described(kind)}
    return {name: text for name, text in given.items() if text is not None}


def typed(options: "Namespace", kind: type[msgspec.Struct]) -> dict[str, Any]:
    """The values of the flags that were given. Raises UsageError, naming every flag that is wrong."""
    return converted(texts(options, kind), kind, flag)


def converted(
    texts: Mapping[str, str], kind: type[msgspec.Struct], called: Callable[[str], str] = str
) -> dict[str, Any]:
    """The values of these fields. Raises UsageError, naming every problem; ``called``: a field's name to the user."""
    fields = {field.name: field for field in msgspec.structs.fields(kind)}
    problems, values = [], dict[str, Any]()
    for name, text in sorted(texts.items()):
        if name not in fields:
            close = difflib.get_close_matches(name, fields, n=1)
            problems.append(f"{name}: unknown setting" + (f"; did you mean {close[0]}?" if close else ""))
            continue
        try:
            values[name] = msgspec.convert(text, fields[name].type, strict=False)
        except msgspec.ValidationError as error:
            problems.append(f"{called(name)}: {error}")
    if problems:
        raise UsageError("\n".join(problems))
    return values
