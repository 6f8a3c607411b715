"""What a node says it runs on."""

import platform
import sysconfig

import pytest

from quorate.leaf import BUILD
from quorate.node.build import interpreter, leaf


@pytest.mark.parametrize(
    ("arguments", "how"),
    [
        ("'--enable-optimizations' '--with-lto'", "optimised"),
        ("'--prefix=/usr' '--with-wheel-pkg-dir=/usr/share/python-wheels/'", "optimised"),
        ("'--enable-shared'", "not optimised"),
        (None, "not optimised"),
    ],
)
def test_the_interpreter_is_named_with_how_it_was_compiled(
    arguments: str | None, how: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As it was configured; Debian's, which hides its flags, by its own mark; one that says nothing is not trusted."""
    monkeypatch.setattr(sysconfig, "get_config_var", {"CONFIG_ARGS": arguments}.get)
    assert interpreter() == f"CPython {platform.python_version()}, {how}"


def test_the_leaf_is_named() -> None:
    """The one that this process chose."""
    assert leaf() == BUILD
    assert BUILD == "native" or BUILD.startswith("pure: ")
