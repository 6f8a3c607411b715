"""Ask both Java controllers every case and keep what they answer: ``python -m tests.contract.record dledger jraft``."""

import json
import sys
import tempfile
from pathlib import Path

from quorate.wire.remoting import HeaderType
from tests.contract.cases import CASES, POISON
from tests.contract.speaker import Story, tell
from tests.peers import PEERS

GOLDEN = Path(__file__).parent / "golden"


def answers_of(kind: str, controllers: list[str], header_type: HeaderType = HeaderType.JSON) -> dict[str, Story]:
    """Every case through the leader's address."""
    return {
        name: tell(case, f"{name}-{header_type.name}", controllers, follower=False, header_type=header_type)
        for name, case in CASES.items()
        if name not in POISON[kind]
    }


def main(kinds: list[str]) -> None:
    """Write golden/java-<kind>.json."""
    from tests.rocketmq.stock import JavaControllers, Stock

    for kind in kinds:
        with tempfile.TemporaryDirectory() as work:
            stock = Stock(Path(work), PEERS / "rocketmq" / "lib")
            try:
                stories = answers_of(kind, JavaControllers(stock, kind).addresses)
            finally:
                stock.stop()
        text = json.dumps(stories, indent=1, ensure_ascii=False, sort_keys=True)
        (GOLDEN / f"java-{kind}.json").write_text(text + "\n")


if __name__ == "__main__":
    main(sys.argv[1:])
