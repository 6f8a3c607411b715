"""What a terminal may be shown: names and texts come from whoever reaches a port, and a terminal obeys what it reads.

Rules: everything that is printed for eyes goes through ``visible``; JSON and YAML for programs do not. Nothing is left
out: what is not printed as it is, is written as its escape, so that no two names differ by what is not seen. Bytes are
shown as text where they are text.
"""

import re
from base64 import b64encode
from typing import Final

UNPRINTED: Final = re.compile(
    "[\x00-\x1f\x7f-\x9f\xad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u2028-\u202e\u2060-\u206f\u3164"
    "\ud800-\udfff\ufe00-\ufe0f\ufeff\uffa0\ufff0-\uffff\U0001bca0-\U0001bca3\U0001d173-\U0001d17a\U000e0000-\U000e0fff]"
)
"""Control characters (C0, DEL, C1), line separators, what changes the direction of writing (Unicode Bidi_Control, UAX
#9: a name could be shown backwards), what is shown as nothing (Default_Ignorable_Code_Point, UAX #44), and halves of
surrogate pairs, which no output encodes.
"""


def visible(text: str) -> str:
    """``text`` with each character that a terminal would obey, or show as nothing, written as Python writes it."""
    return UNPRINTED.sub(lambda match: match[0].encode("unicode_escape").decode("ascii"), text)


def visible_bytes(data: bytes) -> str:
    """Bytes for eyes, in a table or a sentence: UTF-8 as ``visible`` shows it, whatever else as ``base64:…``."""
    try:
        return visible(data.decode())
    except UnicodeDecodeError:
        return f"base64:{b64encode(data).decode()}"


def visible_lines(text: str) -> str:
    """The same for a message of ours that may have several lines."""
    return "\n".join(map(visible, text.split("\n")))
