"""What met what is counted as it happens, and no more."""

from tests.sim.coverage import MOMENT_S, Coverage
from tests.sim.world import World


def test_a_request_meets_what_strikes_while_it_is_open_and_what_lasts_when_it_begins() -> None:
    """Not what was over before, nor what strikes after its end."""
    world = World(1)
    coverage = Coverage(world)
    coverage.strike("early")
    world.run_until(world.now + 2 * MOMENT_S)
    coverage.strike("lasting", for_s=1.0)
    end = coverage.begin("read")
    coverage.strike("in between")
    end()
    coverage.strike("late")
    assert coverage.met == {("lasting", "read"): 1, ("in between", "read"): 1}


def test_a_fault_meets_a_snapshot_that_is_arriving() -> None:
    """Snapshots are looked for, for nobody asks for them."""
    coverage = Coverage(World(1))
    coverage.strike("crash")
    coverage.installing = lambda: True
    coverage.strike("crash")
    assert coverage.met == {("crash", "snapshot"): 1}
