"""The messages and services of the gRPC edge, generated from the ``.proto`` files here (``gateway.grpc.generate``)."""
