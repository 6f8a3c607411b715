"""A pytest plugin that plants the bug named by ``QUORATE_MUTANT`` before any test is collected (mutants.table)."""

import os

from tests.sim.mutants import MUTANTS

MUTANTS[os.environ["QUORATE_MUTANT"]].apply()
