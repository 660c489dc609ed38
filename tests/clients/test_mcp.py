"""The official Python client of the Model Context Protocol: over HTTP, and over the bridge from standard input."""

import asyncio
import json
import time

import httpx2
import pytest
from mcp import ClientSession, StdioServerParameters
from mcp.client.stdio import stdio_client
from mcp.client.streamable_http import streamable_http_client

from server import PROGRAMS

TOKEN = "secret"
TOOLS = {"search_spans", "get_trace", "list_sessions", "diagnose_session"}


@pytest.fixture
def filled(start):
    """A server with three spans of a session, of which two failed."""
    server = start("--mcp", env={"TRAZA_TOKENS": f"rw:{TOKEN}"})
    now = time.time_ns()
    spans = [
        {
            "trace_id": "t",
            "span_id": f"s{number}",
            "name": "look_up",
            "service": "bot",
            "status": "error" if number else "ok",
            "start_ns": now - 10**9 + number,
            "end_ns": now,
            "attributes": {"session.id": "talk"},
        }
        for number in range(3)
    ]
    headers = {"Authorization": f"Bearer {TOKEN}"}
    assert server.request("POST", "/v1/spans", json.dumps(spans).encode(), headers)[0] == 200
    return server


async def talk(session):
    """What an agent does: it introduces itself, looks at what there is, and asks."""
    hello = await session.initialize()
    assert hello.server_info.name
    listed = (await session.list_tools()).tools
    assert {tool.name for tool in listed} >= TOOLS
    assert all(tool.input_schema["type"] == "object" for tool in listed)
    assert (await session.list_prompts()).prompts
    assert (await session.list_resources()).resources
    await session.send_ping()

    found = await session.call_tool("search_spans", {"status": "error"})
    assert not found.is_error
    assert "s1" in found.content[0].text
    assert "s2" in found.content[0].text
    trace = await session.call_tool("get_trace", {"trace_id": "t"})
    assert "3 spans" in trace.content[0].text
    diagnosis = await session.call_tool("diagnose_session", {"session_id": "talk"})
    assert diagnosis.structured_content["examined"] == 3
    absent = await session.call_tool("get_trace", {"trace_id": "none"})
    assert absent.is_error


def test_the_client_speaks_to_the_endpoint(filled):
    async def over_http():
        headers = {"Authorization": f"Bearer {TOKEN}"}
        async with (
            httpx2.AsyncClient(headers=headers) as http,
            streamable_http_client(filled.url + "/v1/mcp", http_client=http) as (read, write, *_),
            ClientSession(read, write) as session,
        ):
            await talk(session)

    asyncio.run(asyncio.wait_for(over_http(), 60))


def test_the_client_speaks_to_the_bridge(filled):
    async def over_the_bridge():
        bridge = StdioServerParameters(
            command=str(PROGRAMS / "daybook"),
            args=["mcp", "--url", filled.url],
            env={"TRAZA_TOKEN": TOKEN},
        )
        async with stdio_client(bridge) as (read, write), ClientSession(read, write) as session:
            await talk(session)

    asyncio.run(asyncio.wait_for(over_the_bridge(), 60))
