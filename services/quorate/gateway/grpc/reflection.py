"""``ServerReflection``: what is served here, for tools that have no ``.proto`` files.

Rules: answers are made of the descriptors that the messages themselves are made of. What is not known is NOT_FOUND
within its answer, and the stream goes on, as the protocol has it. The protocol has two names, ``v1`` and before it
``v1alpha``, and the same bytes under both; gRPC's package for Python has the earlier one.
"""

from collections.abc import AsyncIterator, Collection, Iterator
from typing import Final

from google.protobuf import descriptor_pb2, descriptor_pool, json_format
from google.protobuf.descriptor import FileDescriptor, ServiceDescriptor
from grpc_reflection.v1alpha import reflection_pb2 as pb

from quorate.gateway.grpc.asking import Call
from quorate.gateway.grpc.codes import StatusCode


def _v1() -> ServiceDescriptor:
    """Made of the earlier one, by its name."""
    early = descriptor_pb2.FileDescriptorProto.FromString(pb.DESCRIPTOR.serialized_pb)
    text = json_format.MessageToJson(early).replace("v1alpha", "v1")
    file = json_format.Parse(text, descriptor_pb2.FileDescriptorProto())
    pool = descriptor_pool.Default()
    pool.AddSerializedFile(file.SerializeToString())
    return pool.FindFileByName(file.name).services_by_name["ServerReflection"]


SERVICES: Final = (pb.DESCRIPTOR.services_by_name["ServerReflection"], _v1())


class ReflectionService:
    """The handler. ``names``: the services that are served."""

    def __init__(self, names: Collection[str]) -> None:
        self._names = sorted(names)
        self._pool = descriptor_pool.Default()

    async def info(
        self, requests: AsyncIterator[pb.ServerReflectionRequest], call: Call
    ) -> AsyncIterator[pb.ServerReflectionResponse]:
        """One answer to each question, in their order."""
        async for request in requests:
            answer = self._answer(request)
            answer.valid_host = request.host
            answer.original_request.ParseFromString(request.SerializeToString())  # By either name.
            yield answer

    def _answer(self, request: pb.ServerReflectionRequest) -> pb.ServerReflectionResponse:
        try:
            match request.WhichOneof("message_request"):
                case "list_services":
                    served = [pb.ServiceResponse(name=name) for name in self._names]
                    return pb.ServerReflectionResponse(list_services_response=pb.ListServiceResponse(service=served))
                case "file_by_filename":
                    return _files(self._pool.FindFileByName(request.file_by_filename))
                case "file_containing_symbol":
                    return _files(self._file_of(request.file_containing_symbol))
                case "file_containing_extension":
                    asked = request.file_containing_extension
                    extended = self._pool.FindMessageTypeByName(asked.containing_type)
                    found = self._pool.FindExtensionByNumber(extended, asked.extension_number)
                    return _files(self._pool.FindFileContainingSymbol(found.full_name))
                case "all_extension_numbers_of_type":
                    extended = self._pool.FindMessageTypeByName(request.all_extension_numbers_of_type)
                    numbers = [one.number for one in self._pool.FindAllExtensions(extended)]
                    all_of_it = pb.ExtensionNumberResponse(base_type_name=extended.full_name, extension_number=numbers)
                    return pb.ServerReflectionResponse(all_extension_numbers_response=all_of_it)
                case _:
                    return _error(StatusCode.INVALID_ARGUMENT, "quorate: a question that is none")
        except KeyError:
            return _error(StatusCode.NOT_FOUND, "quorate: that is not known here")

    def _file_of(self, symbol: str) -> FileDescriptor:
        """Where something is, a method too, which the pool does not look for. Raises KeyError."""
        try:
            return self._pool.FindFileContainingSymbol(symbol)
        except KeyError:
            service, _, method = symbol.rpartition(".")
            return self._pool.FindServiceByName(service).methods_by_name[method].containing_service.file


def _error(code: StatusCode, text: str) -> pb.ServerReflectionResponse:
    error = pb.ErrorResponse(error_code=code, error_message=text)
    return pb.ServerReflectionResponse(error_response=error)


def _files(file: FileDescriptor) -> pb.ServerReflectionResponse:
    """A file, and those that it needs, each once."""
    found = {one.name: one.serialized_pb for one in _with_needed(file)}
    return pb.ServerReflectionResponse(
        file_descriptor_response=pb.FileDescriptorResponse(file_descriptor_proto=found.values())
    )


def _with_needed(file: FileDescriptor) -> Iterator[FileDescriptor]:
    yield file
    for needed in file.dependencies:
        yield from _with_needed(needed)
