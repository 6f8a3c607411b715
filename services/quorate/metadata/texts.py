"""What text may enter the log: bounded, and encodable as UTF-8."""


def fits(text: str, length_max: int, *, empty: bool = False) -> bool:
    """At most ``length_max`` characters, not empty unless allowed, no lone surrogates (which UTF-8 cannot carry)."""
    if not text:
        return empty
    if len(text) > length_max:
        return False
    return text.isascii() or not any("\ud800" <= character <= "\udfff" for character in text)
