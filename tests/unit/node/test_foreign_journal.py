"""Another's journal in a data directory: refused by name before anything is written."""

from itertools import count

import pytest

from quorate.errors import UsageError
from tests.stand_ins import MemoryVoterFile
from tests.unit.node.test_journal_cut import Bench


def exchanged() -> Bench:
    """A directory that has lived, with the journal of another one."""
    mine, other = Bench(), Bench()
    other.fresh = count(1000)
    for bench in (mine, other):
        bench.start()
        bench.run(60)
    mine.put(other.image())
    assert len(other.image()) > 2
    return mine


@pytest.mark.parametrize("voter_file", ["in place", "copied", "missing", "damaged"])
def test_nothing_is_written_beside_another_s_journal(voter_file: str) -> None:
    """Also where the voter file has to be written anew: what it would say is said once its own journal is back."""
    bench = exchanged()
    whole = bench.file.data
    assert whole is not None
    match voter_file:
        case "copied":
            bench.file.copied = True
        case "missing":
            bench.file = MemoryVoterFile()
        case "damaged":
            bench.file = MemoryVoterFile(whole[:-3])
        case _:
            pass
    before = bench.image(), bench.file.data, bench.file.copied
    with pytest.raises(UsageError, match="part of the journal of node 1"):
        bench.start()
    assert (bench.image(), bench.file.data, bench.file.copied) == before


def test_another_s_journal_is_not_erased_for_its_damage() -> None:
    """Its first header is gone, the next one names the owner: the node does not begin a new journal in its place."""
    bench = exchanged()
    bench.disk.files[min(bench.disk.files)][:512] = bytes(512)
    before = bench.image(), bench.file.data
    with pytest.raises(UsageError, match="part of the journal of node 1"):
        bench.start()
    assert (bench.image(), bench.file.data) == before
