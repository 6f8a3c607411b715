"""How answers are printed: a table for eyes, JSON or YAML for programs.

Rules: JSON and YAML carry everything, with the names of the HTTP interface; a table carries what fits, and nothing that
a terminal would obey (quorate/terminal.py).
"""

import json
import re
import sys
from argparse import ArgumentParser
from collections.abc import Iterable, Mapping, Sequence

from quorate.tables import columns
from quorate.terminal import UNPRINTED, visible

__all__ = ["Plain", "add_output", "columns", "complain", "show", "yaml"]

_PLAIN = re.compile("[A-Za-z_][A-Za-z0-9_]*")
_WORDS = frozenset({"true", "false", "yes", "no", "on", "off", "null", "y", "n"})
"""Words that YAML (1.1, as most read it) takes for a boolean or for null."""

Plain = None | bool | int | float | str | Sequence["Plain"] | Mapping[str, "Plain"]


def add_output(parser: ArgumentParser, text: str = "default: table") -> None:
    """The argument ``-o``."""
    parser.add_argument("-o", "--output", choices=("table", "json", "yaml"), default="table", help=text)


def show(value: Plain, output: str, table: Iterable[str]) -> None:
    """Print ``value`` as asked; ``table`` is its form for eyes, made only when wanted."""
    if output == "json":
        print(json.dumps(value, ensure_ascii=False))
    elif output == "yaml":
        print("\n".join(yaml(value)))
    else:
        for line in table:
            print(visible(line))


def yaml(value: Plain, indent: str = "") -> Iterable[str]:
    """Block-style YAML; scalars are written as JSON, which YAML contains."""
    if isinstance(value, Mapping) and value:
        for name, part in value.items():
            yield from _yaml_item(f"{indent}{_scalar(name, plain=True)}:", part, indent + "  ")
    elif isinstance(value, Sequence) and not isinstance(value, str) and value:
        for part in value:
            yield from _yaml_item(f"{indent}-", part, indent + "  ")
    else:
        yield indent + _scalar(value)


def _yaml_item(head: str, part: Plain, indent: str) -> Iterable[str]:
    if part and isinstance(part, (Mapping, Sequence)) and not isinstance(part, str):
        yield head
        yield from yaml(part, indent)
    else:
        yield f"{head} {_scalar(part)}"


def _scalar(value: Plain, *, plain: bool = False) -> str:
    if isinstance(value, float) and "." not in repr(value):
        return repr(value).replace("e", ".0e")  # YAML's numbers have a point.
    if not isinstance(value, str):
        return json.dumps(value)
    if plain and _PLAIN.fullmatch(value) and value.lower() not in _WORDS:
        return value
    return UNPRINTED.sub(_escaped, json.dumps(value, ensure_ascii=False))


def _escaped(found: re.Match[str]) -> str:
    code = ord(found[0])
    return f"\\u{code:04x}" if code < 1 << 16 else f"\\U{code:08x}"


def complain(text: str) -> None:
    """Say something to the person, not to the program that reads us."""
    print(visible(text), file=sys.stderr, flush=True)
