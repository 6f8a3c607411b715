"""``python -m tests.faults [FLIPS OTHERS]``: the campaign on real nodes, 300 and 100 unless said otherwise; a table."""

import sys
import tempfile
from pathlib import Path

from tests.faults.campaign import table
from tests.faults.real import play

if __name__ == "__main__":
    flips, others = (int(word) for word in sys.argv[1:3]) if len(sys.argv) > 2 else (300, 100)
    with tempfile.TemporaryDirectory(prefix="quorate-faults-") as folder:
        found = play(Path(folder), flips, others, seed=1)
    for outcome in found:
        if outcome.verdict == "silent":
            print(f"{outcome.damage}: {outcome.trouble}; {outcome.told}")
    print(table(found))
    sys.exit(any(outcome.verdict == "silent" for outcome in found))
