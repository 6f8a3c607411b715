"""What may be open at the same time has a descriptor, or the node says that it serves fewer, or that it cannot."""

import resource

import pytest

from quorate.descriptors import raised
from quorate.errors import UsageError
from quorate.node.descriptors import LEAST, fitted, fixed, wanted
from quorate.node.settings import NodeSettings
from tests.unit.node.test_settings import settings

LIMITS = [*range(271, 800, 7), 1024, 4096, 10_000, 20_000]


def number(found: NodeSettings, path: tuple[str, ...]) -> int:
    """A setting by its path."""
    value = found
    for name in path:
        value = getattr(value, name)
    assert isinstance(value, int)
    return value


@pytest.mark.parametrize("limit", LIMITS)
def test_whatever_may_be_open_fits_below_the_limit(limit: int) -> None:
    """The sum of all that may be open is never more than the system allows, and nothing is made larger than it was."""
    before = settings()
    after, smaller = fitted(before, limit)
    assert fixed(after) + sum(number(after, path) for path in LEAST) <= limit
    for path, least in LEAST.items():
        assert least <= number(after, path) <= number(before, path)
        assert (".".join(path) in smaller) == (number(after, path) < number(before, path))


def test_each_segment_of_the_journal_has_a_descriptor() -> None:
    """Of twice as much as is retained, for so much is there before it is trimmed; and of those that are begun."""
    few = settings(flags={"engine.snapshots.retain_bytes": str(16 << 20)})
    many = settings(flags={"engine.snapshots.retain_bytes": str(64 << 20)})
    assert fixed(many) - fixed(few) == 2 * (48 << 20) // many.storage.journal.segment_bytes


def test_enough_changes_nothing() -> None:
    """The settings are the operator's."""
    before = settings()
    assert fitted(before, wanted(before)) == (before, {})


def test_a_setting_below_our_least_is_kept() -> None:
    """Who wants one connection gets one."""
    before = settings(flags={"kafka.connections_max": "1"})
    after, smaller = fitted(before, 260)
    assert after.kafka.connections_max == 1
    assert "kafka.connections_max" not in smaller


@pytest.mark.parametrize("limit", [0, 64, 200])
def test_too_few_are_refused_in_a_sentence(limit: int) -> None:
    """It says how many there are, how many are needed, and how to have more."""
    with pytest.raises(UsageError, match=rf"may open {limit} files and needs at least \d+: raise it \(ulimit -n"):
        fitted(settings(), limit)


def test_the_limit_is_raised_as_far_as_it_may_be() -> None:
    """To what is needed, or to the hard limit; never lowered."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (400, hard))
        assert raised(300) == 400
        assert raised(500) == 500
        assert resource.getrlimit(resource.RLIMIT_NOFILE) == (500, hard)
        assert raised(hard + 1) == hard
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
