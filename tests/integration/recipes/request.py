"""A request that reads: its code and body, its type, its question, its route, its answer; a unit test, a contract case.

RocketMQ's brokers answer 305 with the names of their own topics; a controller of Java's does not know the code.
"""

WHY = "topics are kept by the controller; Java's knows none"
TEST = '''"""305 answers with the names of all topics."""

import json

from tests.unit.gateway.remoting.test_service import Gateway


def test_the_names_of_topics() -> None:
    """By name, as Java's ``TopicList`` has them; there may be none."""
    gateway = Gateway()
    assert json.loads(gateway.ask(305).body) == {"topicList": []}
    for name in ("b", "a"):
        assert gateway.ask(17, topic=name, readQueueNums=1, writeQueueNums=1, perm=6).code == 0
    answer = gateway.ask(305)
    assert (answer.code, json.loads(answer.body)) == (0, {"topicList": ["a", "b"]})
'''
REQUEST = '''class TopicNamesRequest(Head, frozen=True, tag=305):
    """The names of all topics."""

    fields: ReadFields = ReadFields()


class DeleteTopicRequest(Head'''
BODY = '''class TopicNamesBody(msgspec.Struct, gc=False, frozen=True, rename="camel"):
    """Answer to 305, Java ``TopicList``."""

    topic_list: tuple[str, ...]


class DataVersionBody('''
QUESTION = '''class TopicNames(_Value, frozen=True):
    """305: the names of all topics."""


Query = NextBrokerId | ReplicaInfo | SyncStateData | TopicConfig | TopicList | TopicNames
'''
ANSWER = '''class TopicNamesIs(_Value, frozen=True):
    """Answer to TopicNames, by name."""

    names: tuple[str, ...]


Result = NextBrokerIdIs | ReplicaInfoIs | SyncStateDataIs | TopicConfigIs | TopicListIs | TopicNamesIs
'''
ANSWERED = """def _topic_names(query: TopicNames, state: State, live: LiveView) -> Result | Absent:
    return TopicNamesIs(names=tuple(sorted(state.topics)))


_ANSWERS: Final["""
SERVED = '''    def topic_names(self, request: TopicNamesRequest, body: bytes, exchange: Exchange) -> None:
        """305."""
        self._query(exchange, request.fields, queries.TopicNames(), "cluster")

    def delete_topic(self'''
DEVIATION = f"""[[deviation]]
case = "topics"
step = "names"
why = "{WHY}"
[deviation.answers]
code = ["3", "0"]
remark = ['" request type 305 not supported"', "null"]
"body.topicList" = ["absent", '["$set"]']

[[deviation]]
case = "topics"
step = "delete"
path = "code"
"""
WRITTEN = {"tests/unit/gateway/remoting/test_topic_names.py": TEST}
CHANGES = {
    "services/quorate/wire/remoting_headers.py": [
        (
            "    GET_ALL_TOPIC_CONFIG = 21\n",
            "    GET_ALL_TOPIC_CONFIG = 21\n    GET_SYSTEM_TOPIC_LIST_FROM_BROKER = 305\n",
        ),
        ("class DataVersionBody(", BODY),
    ],
    "services/quorate/wire/remoting.py": [
        ("class DeleteTopicRequest(Head", REQUEST),
        ("    | DeleteTopicRequest\n", "    | TopicNamesRequest\n    | DeleteTopicRequest\n"),
    ],
    "services/quorate/model/queries.py": [
        ("Query = NextBrokerId | ReplicaInfo | SyncStateData | TopicConfig | TopicList\n", QUESTION),
        ("Result = NextBrokerIdIs | ReplicaInfoIs | SyncStateDataIs | TopicConfigIs | TopicListIs\n", ANSWER),
        ("_ANSWERS: Final[", ANSWERED),
        ("    TopicList: _topic_list,\n", "    TopicList: _topic_list,\n    TopicNames: _topic_names,\n"),
    ],
    "services/quorate/gateway/remoting/service.py": [
        ("    SyncStateDataRequest,\n    Upd", "    SyncStateDataRequest,\n    TopicNamesRequest,\n    Upd"),
        ("    def delete_topic(self", SERVED),
        (
            "    AllTopicsRequest: RemotingService.all_topics,\n",
            "    AllTopicsRequest: RemotingService.all_topics,\n    TopicNamesRequest: RemotingService.topic_names,\n",
        ),
    ],
    "services/quorate/gateway/remoting/answers.py": [
        ("    TopicListIs,\n", "    TopicListIs,\n    TopicNamesIs,\n"),
        ("    TopicListReplyFields,\n", "    TopicListReplyFields,\n    TopicNamesBody,\n"),
        (
            "        case TopicListIs():\n",
            (
                "        case TopicNamesIs():\n"
                "            return Message(0, body=_json(TopicNamesBody(result.names)))\n"
                "        case TopicListIs():\n"
            ),
        ),
    ],
    "tests/contract/cases.py": [
        ('    s.ask("delete", 215, topic=s.set)\n', '    s.ask("names", 305)\n    s.ask("delete", 215, topic=s.set)\n')
    ],
    "tests/contract/deviations.toml": [('[[deviation]]\ncase = "topics"\nstep = "delete"\npath = "code"\n', DEVIATION)],
    "docs/remoting.md": [("| 17, 215, 351, 21 |", "| 305 | names of topics | a read as 1004 |\n| 17, 215, 351, 21 |")],
}
FILES_MAX = 9
TESTS = [
    "tests/unit/gateway/remoting/test_topic_names.py",
    "tests/unit/gateway/remoting/test_service.py",
    "tests/unit/wire/test_remoting.py",
    "tests/contract/test_contract.py::test_every_answer_is_java_s_or_a_stated_deviation[topics-leader-json]",
]
GOLDEN = {"code": "3", "remark": '" request type 305 not supported"'}
"""What both Java controllers answer to the new step."""
