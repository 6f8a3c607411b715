"""Hostile bytes for the native leaf, guided by the coverage of the Python functions beside it.

Rules: whatever the bytes, both answer the same or raise the same; anything else is a finding: the input is kept in
``.run/fuzz`` and the exit status is not 0. The first byte chooses the function. A batch gets the length and the CRC
that its bytes have, so that what lies behind them is read. Starts from one valid input for each function.

Usage: ``fuzz_leaf.py [--seconds N]``.
"""

import argparse
import sys
from pathlib import Path
from typing import Any

import atheris

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

with atheris.instrument_imports(include=["quorate.wire", "quorate.events", "quorate.consensus"]):
    import quorate.consensus.entry
    import quorate.consensus.transport.codec
    import quorate.wire.avro  # noqa: F401 - imported here, so that it is instrumented
    from quorate.events import _generated
    from tests.unit.events import test_bytes as of_bytes
    from tests.unit.leaf.kit import Call, both, library, outcome, pure
    from tests.unit.leaf.test_events import HOT, module, read, writer
    from tests.unit.leaf.test_leaf import ONE, mended

READERS = [function for function, call in ONE.items() if isinstance(call[0], bytes)]
IDS = sorted(_generated.READERS)
SCHEMAS = [*((read, number) for number in IDS), *((of_bytes.read_alike, number) for number in (1, 2))]
"""Ours, and those made for tests, with fields of bytes."""


def one(data: bytes) -> None:
    """One input."""
    chosen, rest = data[0] if data else 0, data[1:]
    if chosen >= len(READERS):
        found, schema_id = SCHEMAS[chosen % len(SCHEMAS)]
        assert found("native", schema_id, rest) == found("pure", schema_id, rest), (schema_id, rest)
        return
    function = READERS[chosen]
    for bad in (rest, mended(rest)):
        call: Call = (bad, *ONE[function][1:])
        assert outcome(both(function), call) == outcome(pure(function), call), (chosen, bad)


def seeds(folder: Path) -> None:
    """One file for each function, and one event."""
    for place, function in enumerate(READERS):
        (folder / f"{place}").write_bytes(bytes([place]) + ONE[function][0])
    event = next(first for first in range(len(READERS), 256) if SCHEMAS[first % len(SCHEMAS)] == (read, 15))
    (folder / "event").write_bytes(bytes([event]) + writer("pure", HOT)(HOT))


def main() -> None:
    """Fuzz for so many seconds; libFuzzer ends the process."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--seconds", type=int, default=60)
    options: Any = parser.parse_args()
    library()
    module("native")
    of_bytes.module("native")
    findings = ROOT / ".run" / "fuzz"
    corpus = findings / "leaf-corpus"
    corpus.mkdir(parents=True, exist_ok=True)
    seeds(corpus)
    limits = [f"-max_total_time={options.seconds}", "-timeout=5", "-rss_limit_mb=512", "-max_len=4096"]
    atheris.Setup(
        [sys.argv[0], *limits, f"-artifact_prefix={findings}/leaf-", "-print_final_stats=1", str(corpus)], one
    )
    atheris.Fuzz()


if __name__ == "__main__":
    main()
