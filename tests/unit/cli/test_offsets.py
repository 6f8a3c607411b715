"""``quorate offsets``: what is typed as a number and is none."""

import pytest

from quorate.cli import program


@pytest.mark.parametrize(
    ("words", "told"),
    [
        ("commit g s -5", "argument OFFSET: expected a number of 0 or more, not '-5'"),
        ("commit g s abc", "argument OFFSET: expected a number of 0 or more, not 'abc'"),
        ("commit g s 1 --expect-offset x", "argument --expect-offset: expected a number of 0 or more, not 'x'"),
        (f"commit g s {1 << 63}", f"expected a number of {(1 << 63) - 1} or less, not '{1 << 63}'"),
        (f"commit g s {'9' * 5000}", f"expected a number of {(1 << 63) - 1} or less, not '{'9' * 40}'"),
        ("get g --at soon", "argument --at: expected an offset, not 'soon'"),
    ],
)
def test_what_is_no_number_is_told_in_words(words: str, told: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Status 2, what was typed, and what is expected; no name of a function of ours."""
    with pytest.raises(SystemExit) as ended:
        program.main(["offsets", *words.split()])
    assert ended.value.code == 2
    assert capsys.readouterr().err.endswith(f"{told}\n")
