"""Reflection: tools learn what is served, and every file that they need for it."""

from collections.abc import AsyncIterator
from typing import Any

from google.protobuf import descriptor_pb2
from grpc_reflection.v1alpha import reflection_pb2 as pb

from quorate.gateway.grpc.reflection import ReflectionService
from tests.unit.gateway.grpc.house import House


def answers(**asked: Any) -> pb.ServerReflectionResponse:
    """What is said to one question."""
    house, service = House(), ReflectionService(["etcdserverpb.KV", "a.B"])

    async def one() -> AsyncIterator[pb.ServerReflectionRequest]:
        yield pb.ServerReflectionRequest(host="h", **asked)

    async def told() -> pb.ServerReflectionResponse:
        return await anext(service.info(one(), house.call))

    answer = house.run(told())
    assert answer.valid_host == answer.original_request.host == "h"
    return answer


def names(answer: pb.ServerReflectionResponse) -> list[str]:
    files = answer.file_descriptor_response.file_descriptor_proto
    return [descriptor_pb2.FileDescriptorProto.FromString(one).name for one in files]


def test_services_are_listed_by_name() -> None:
    """All that it was made with."""
    served = answers(list_services="").list_services_response.service
    assert [one.name for one in served] == ["a.B", "etcdserverpb.KV"]


def test_a_file_comes_with_all_that_it_needs() -> None:
    """Found by its name or by what is in it; each once, itself first."""
    by_symbol = names(answers(file_containing_symbol="etcdserverpb.KV"))
    assert by_symbol[0].endswith("rpc.proto")
    assert any(name.endswith("kv.proto") for name in by_symbol[1:])
    assert len(by_symbol) == len(set(by_symbol))
    assert names(answers(file_by_filename=by_symbol[0])) == by_symbol


def test_a_method_is_found_where_its_service_is() -> None:
    """By its whole name, as tools ask for it; what the service does not have is not known."""
    assert names(answers(file_containing_symbol="etcdserverpb.KV.Range"))[0].endswith("rpc.proto")
    for symbol in ("etcdserverpb.KV.Nothing", "etcdserverpb.Nobody.Range", ".", ""):
        assert answers(file_containing_symbol=symbol).error_response.error_code == 5


def test_extensions_are_found() -> None:
    """Of a message that has none, none; one that does not exist is not there."""
    none = answers(all_extension_numbers_of_type="etcdserverpb.PutRequest").all_extension_numbers_response
    assert (none.base_type_name, list(none.extension_number)) == ("etcdserverpb.PutRequest", [])
    asked = pb.ExtensionRequest(containing_type="etcdserverpb.PutRequest", extension_number=7)
    assert answers(file_containing_extension=asked).error_response.error_code == 5


def test_what_is_not_known_is_said_in_the_stream() -> None:
    """NOT_FOUND within the answer; a question that is none is no reason to end either."""
    for asked in ({"file_by_filename": "x"}, {"file_containing_symbol": "x"}, {"all_extension_numbers_of_type": "x"}):
        assert answers(**asked).error_response.error_code == 5
    assert answers().error_response.error_code == 3
