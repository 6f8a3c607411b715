"""What the fuzzer of the protobuf edge begins with."""

from tests.fuzz.grpc_inside import Inside, seeds


def test_each_method_is_fuzzed_from_a_request_that_is_answered() -> None:
    """Every method that is served has an input of its own that its handler answers; no two inputs share a file."""
    files, answered = list(seeds()), set[str]()
    assert len(dict(files)) == len(files)
    for name, data in files:
        inside = Inside()
        method = inside.methods[data[0]][0].full_name
        assert name.rpartition("-")[0] == method
        if inside.ask(data):
            answered.add(method)
    assert answered == {method.full_name for method, _ in Inside().methods}
