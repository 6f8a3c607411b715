"""Who has not taken the master's epoch: alive, told of an older one last, and not in sync with this master."""

from tests.dashboard.lives import folded, life, view


def test_whoever_is_in_sync_has_taken_the_epoch() -> None:
    """A member that is in the sync set of its master is never said to be behind in epochs; some others are."""
    behind = 0
    for seed in (1, 2, 3):
        log = folded(life(seed, 260))
        for offset in range(0, log.tip.offset + 1, 5):
            for found in view(log, offset).state.sets.values():
                assert not set(found.diverged) & set(found.sync)
                behind += len(found.diverged)
    assert behind
