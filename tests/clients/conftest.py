"""A server for every test that asks for one, on a free port, over a folder of its own."""

import os

import pytest

from server import Server

# Everything is on this machine, whatever its settings say of the network.
for name in ("NO_PROXY", "no_proxy"):
    os.environ[name] = "127.0.0.1,localhost"


def pytest_addoption(parser):
    parser.addini("serves_grpc", "the server takes OTLP over gRPC in", type="bool", default=False)


@pytest.fixture
def start(tmp_path):
    """Starts servers, which end with the test; they share one store unless they are told otherwise."""
    started = []

    def begin(*flags, data="store", **more):
        server = Server(tmp_path / data, *flags, **more)
        started.append(server)
        return server

    yield begin
    for server in started:
        server.kill()


@pytest.fixture
def server(start):
    return start()
