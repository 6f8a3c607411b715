"""Topics and masters changed from the command line."""

import contextlib
import json
from collections.abc import Iterator
from typing import Any

import pytest

from quorate.cli import program
from quorate.cli.operate import agreement
from quorate.gateway.http.answers import Done, StateHash, TopicAnswer, TopicItem
from quorate.metadata.commands import MasterIs, TopicIs
from tests.unit.cli.served import Served, serving

AT: dict[str, Any] = {"offset": 9, "time_ms": 5, "node": 1}
MISSING = (404, b'{"error":{"code":"not_found","message":"there is no such topic"}}')
HELD = TopicItem(
    topic="orders", read_queues=4, write_queues=6, permission=4, filter_type="SINGLE_TAG", system_flags=1, order=True,
    attributes={"a": "1"},
)  # fmt: skip


@pytest.fixture
def node() -> Iterator[Served]:
    with serving() as served:
        yield served


def run(node: Served, *words: str) -> int:
    return program.main([*words, "--node", node.address])


def answering(node: Served, held: TopicItem | None, *, changed: bool = True) -> None:
    """A node that has this topic, or none, and does what it is asked."""
    done = Done(**AT, repeated=False, reply=TopicIs(topic="orders", changed=changed))
    now = MISSING if held is None else TopicAnswer(**AT, topic=held)
    node.answers["/v1/topics/orders"] = lambda _: now if node.asked[-1][0] == "GET" else done


def sent(node: Served) -> Any:
    """The body of the change."""
    return json.loads(node.asked[-1][3])


def test_a_topic_is_created_with_what_was_said(node: Served, capsys: pytest.CaptureFixture[str]) -> None:
    """The rest are defaults, of ours for queues and of HTTP for the others; one that is there is not touched."""
    answering(node, None)
    assert run(node, "topics", "create", "orders", "--read-queues", "2", "--attribute", "message.type=FIFO") == 0
    assert capsys.readouterr().out == "topic orders is created; true from offset 9\n"
    assert (node.asked[-1][0], sent(node)) == (
        "PUT",
        {
            "read_queues": 2, "write_queues": 8, "permission": 6, "filter_type": "SINGLE_TAG", "system_flags": 0,
            "order": False, "attributes": {"+message.type": "FIFO"},
        },
    )  # fmt: skip
    answering(node, HELD)
    assert run(node, "topics", "create", "orders") == 1
    assert "there is a topic orders" in capsys.readouterr().err
    assert node.asked[-1][0] == "GET"


def test_a_topic_is_changed_and_keeps_the_rest(node: Served, capsys: pytest.CaptureFixture[str]) -> None:
    """What is not said stays; one that is not there is refused; what was so already is said to have been."""
    answering(node, HELD)
    assert run(node, "topics", "change", "orders", "--write-queues", "8", "--order", "no", "--without", "a") == 0
    assert sent(node) == {
        "read_queues": 4, "write_queues": 8, "permission": 4, "filter_type": "SINGLE_TAG", "system_flags": 1,
        "order": False, "attributes": {"-a": ""},
    }  # fmt: skip
    answering(node, HELD, changed=False)
    assert run(node, "topics", "change", "orders") == 0
    assert "was so already" in capsys.readouterr().out
    answering(node, None)
    assert run(node, "topics", "change", "orders") == 1
    assert "there is no topic orders" in capsys.readouterr().err


@pytest.mark.parametrize("output", ["json", "yaml"])
def test_a_topic_is_deleted_and_programs_are_told(
    node: Served, capsys: pytest.CaptureFixture[str], output: str
) -> None:
    """The node's whole answer, as HTTP gives it."""
    answering(node, HELD)
    assert run(node, "topics", "delete", "orders", "-o", output) == 0
    assert node.asked[-1][0] == "DELETE"
    assert ('"changed": true' if output == "json" else "  changed: true") in capsys.readouterr().out


def test_the_refusals_are_those_of_http(node: Served, capsys: pytest.CaptureFixture[str]) -> None:
    """In the node's words, status 1; a node that is in trouble is not taken for one without the topic."""
    error = {"code": "invalid", "message": "5000 queues are too many", "reason": "InvalidTopicSetting"}
    answers = iter([MISSING, (400, json.dumps({"error": error}).encode())])
    node.answers["/v1/topics/orders"] = lambda _: next(answers)
    assert run(node, "topics", "create", "orders", "--read-queues", "5000") == 1
    assert "5000 queues are too many" in capsys.readouterr().err
    node.answers["/v1/topics/orders"] = (503, b'{"error":{"code":"unavailable","message":"no leader"}}')
    assert run(node, "topics", "create", "orders") == 1
    assert "no leader" in capsys.readouterr().err


def master(number: int | None) -> Done:
    """What an election came to."""
    reply = MasterIs(
        cluster="c", broker_set="a", master=number, master_address=None, master_epoch=4, sync_state_set=(),
        sync_state_set_epoch=1, members={},
    )  # fmt: skip
    return Done(**AT, repeated=False, reply=reply)


def test_a_master_is_elected_or_named(node: Served, capsys: pytest.CaptureFixture[str]) -> None:
    """By the rules, or that broker or none; nobody is status 1; a refusal comes in the node's words."""
    node.answers["/v1/elections"] = master(2)
    assert run(node, "elections", "elect", "a") == 0
    assert sent(node) == {"broker_set": "a"}
    assert capsys.readouterr().out == "broker 2 leads a in epoch 4; true from offset 9\n"
    assert run(node, "elections", "transfer", "a", "2", "-o", "json") == 0
    assert sent(node)["broker_id"] == 2
    assert json.loads(capsys.readouterr().out)["reply"]["master"] == 2
    node.answers["/v1/elections"] = master(None)
    assert run(node, "elections", "elect", "a") == 1
    assert "nobody could be elected" in capsys.readouterr().out
    error = {"code": "refused", "message": "the old master is alive", "reason": "MasterStillExists"}
    node.answers["/v1/elections"] = (409, json.dumps({"error": error}).encode())
    assert run(node, "elections", "elect", "a") == 1
    assert "the old master is alive" in capsys.readouterr().err


@pytest.mark.parametrize(
    "words",
    [
        "topics create",
        "topics create orders --at 5",
        "topics create orders --stale",
        "topics change orders --at-least 5",
        "topics delete orders --linearizable",
        "topics create orders --attribute x",
        "topics make orders",
        "elections elect",
        "elections elect a 2",
        "elections transfer a",
        "elections elect a --at 5",
        "elections elect a --stale",
    ],
)
def test_what_cannot_be_asked_changes_nothing(node: Served, words: str) -> None:
    """Status 2, and no change is sent."""
    node.answers["/v1/topics/orders"] = MISSING
    with contextlib.suppress(SystemExit):  # What argparse itself refuses is status 2 by its own rules.
        assert run(node, *words.split()) == 2
    assert all(method == "GET" for method, *_ in node.asked)


def test_hashes_are_judged_offset_by_offset() -> None:
    """Who is at the same offset agrees or does not; who is alone there is not compared."""

    def says(number: int, offset: int, rows: str) -> StateHash:
        return StateHash(**{**AT, "node": number, "offset": offset}, index=None, hash=None, rows=rows, feature_level=1)

    assert list(agreement([says(1, 9, "aa"), says(2, 9, "aa"), says(3, 9, "aa")])) == [
        "nodes 1, 2, 3 agree at offset 9"
    ]
    assert list(agreement([says(1, 9, "aa"), says(2, 9, "bb"), says(3, 10, "aa")])) == [
        "nodes 1, 2 do not agree at offset 9",
        "node 3 alone is at offset 10: not compared",
    ]
