"""Lists and calls every tool of `longhaul mcp` with the official SDK, as an agent would and as a confused one might."""

import asyncio
import json
import os
import re
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from contextlib import contextmanager
from pathlib import Path

from mcp.client import Client
from mcp.client.stdio import StdioServerParameters
from mcp.client.streamable_http import streamable_http_client
from mcp.shared._httpx_utils import create_mcp_http_client

ROOT = Path(__file__).resolve().parents[2]
TOOLS = {"recall_search", "recall_open", "recall_outline", "status", "compress", "undo"}
LOOKS = {"recall_search", "recall_open", "recall_outline", "status"}
# No result is longer, in characters.
MOST = 25_000
# The real bodies that are used where there are some: of each dialect, none of the largest.
REAL = ("moatless_pytest-dev__pytest-7220.messages.json", "openhands_astropy__astropy-7166.chat.json",
        "codex_rollout-2025-08-06.responses.json")
HANDLE = re.compile(r"\b[0-9a-z]{10}\b")


def long_body(steps, size, model="gpt-5", task="Port the parser. The port number is 48213; remember it."):
    """A session of so many calls, one of which gives a very long output."""
    messages = [{"role": "user", "content": task}]
    for n in range(steps):
        arguments = json.dumps({"command": f"make target{n}"})
        call = {"id": f"call_{n}", "type": "function", "function": {"name": "bash", "arguments": arguments}}
        messages.append({"role": "assistant", "content": f"Building target {n}.", "tool_calls": [call]})
        noise = f"compiling unit {n} of the project\n" * (size if n == 3 else 20)
        output = f"{noise}src/file{n}.rs:17: error: mismatched types in step {n}\n"
        messages.append({"role": "tool", "tool_call_id": f"call_{n}", "content": output})
    messages += [{"role": "assistant", "content": "All ported."}, {"role": "user", "content": "Go on."}]
    return {"model": model, "messages": [{"role": "system", "content": "You are careful."}, *messages]}


class Ground:
    """A store with sessions in it, made by the program itself."""

    def __init__(self, program, folder):
        self.program, self.folder = program, Path(folder)
        self.store = str(self.folder / "store.db")
        self.environment = {"HOME": folder, "PATH": os.environ.get("PATH", "")}
        example = (ROOT / "examples" / "session.json").read_text()
        self.example = self.keep("example", example, "--to-tokens", "3000")
        shared = os.environ.get("LONGHAUL_SHARED")
        if shared:
            for name in REAL:
                self.keep(name.split(".")[0], (Path(shared) / "corpus" / name).read_text(), "--force")
        else:
            print("LONGHAUL_SHARED is not set: no real bodies are used")
        # In a small window there is always something to compact.
        small = long_body(40, 20, "gpt-4", "Make the build green.")
        self.small = self.keep("small", json.dumps(small), "--to-tokens", "6000")
        self.long = self.keep("long", json.dumps(long_body(400, 30_000)), "--to-tokens", "20000")

    def keep(self, name, body, *how):
        path = self.folder / f"{name}.json"
        path.write_text(body)
        done = self.run("compress", str(path), "--store", self.store, "--json", "-o", os.devnull, *how)
        return json.loads(done)["session"]

    def run(self, *args):
        done = subprocess.run([self.program, *args], env=self.environment, capture_output=True, text=True)
        # A body that stays larger than was wished for is kept all the same.
        assert done.returncode in (0, 1), (args, done.stderr)
        return done.stdout

    def stdio(self, *more):
        args = ["mcp", "--store", self.store, *more]
        return StdioServerParameters(command=self.program, args=args, env=self.environment)

    @contextmanager
    def listening(self, listen="127.0.0.1:0", *more):
        args = [self.program, "mcp", "--store", self.store, "--listen", listen, *more]
        server = subprocess.Popen(args, env=self.environment, stderr=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        try:
            line = server.stderr.readline()
            found = re.search(r"http://\S+/mcp", line)
            assert found, f"it did not start: {line}{server.stderr.read()}"
            yield found[0]
        finally:
            server.terminate()
            out, _ = server.communicate(timeout=20)
            assert out == "", f"standard output is not silent: {out}"
            assert server.returncode == 0, server.returncode


async def call(client, tool, arguments):
    begun = time.monotonic()
    result = await client.call_tool(tool, arguments)
    assert time.monotonic() - begun < 30, (tool, arguments)
    assert len(result.content) == 1 and result.content[0].type == "text", result
    text = result.content[0].text
    assert 0 < len(text) < MOST, (tool, len(text))
    return result.is_error, text


async def works(client, tool, **arguments):
    is_error, text = await call(client, tool, arguments)
    assert not is_error, (tool, arguments, text)
    return text


async def fails(client, tool, arguments, words=""):
    is_error, text = await call(client, tool, arguments)
    shown = str(arguments)[:120]
    assert is_error, (tool, shown, text[:300])
    assert "\n" not in text and len(text) < 500 and words in text, (tool, shown, text)


async def tools_are_listed(client):
    listed = {tool.name: tool for tool in (await client.list_tools()).tools}
    assert set(listed) == TOOLS, set(listed)
    for name, tool in listed.items():
        assert tool.description and tool.input_schema["additionalProperties"] is False
        assert tool.annotations.read_only_hint == (name in LOOKS), name
        assert tool.annotations.destructive_hint is False and tool.annotations.open_world_hint is False
        assert tool.annotations.idempotent_hint == (name in LOOKS), name


async def every_tool_works(client, ground):
    status = await works(client, "status")
    assert ground.long in status and ground.example in status, status
    one = await works(client, "status", session=ground.long)
    assert "tokens sent" in one and "1 compaction; active: 1" in one, one

    found = await works(client, "recall_search", query="port number 48213", session=ground.long)
    assert "48213" in found and found.startswith("Quoted"), found
    found = await works(client, "recall_search", query="mismatched types in step 3", session=ground.long, limit="1")
    handle = HANDLE.search(found)[0]
    opened = await works(client, "recall_open", recall_id=handle, session=ground.long)
    assert "All that follows is the quotation" in opened, opened[:500]
    outline = await works(client, "recall_outline", session=ground.long)
    assert "An overview" in outline and "compaction 1" in outline, outline
    assert "Port the parser" in outline, outline
    await works(client, "recall_outline", session=ground.long, **{"from": 700})
    # Without a session it is the one written last.
    newest = status.splitlines()[1].split()[0]
    assert newest in await works(client, "compress", preview=True)
    await the_whole_of_a_huge_block(client, ground)


async def the_whole_of_a_huge_block(client, ground):
    """An output of a million characters comes in pages that join to it."""
    found = await works(client, "recall_search", query="make target3", session=ground.long, limit=3)
    step = next(line for line in found.splitlines() if "call of bash" in line and "result " in line)
    handle = re.search(r"result ([0-9a-z]{10})", step)[1]
    start, joined = 0, 0
    for _ in range(200):
        page = await works(client, "recall_open", recall_id=handle, session=ground.long, **{"from": start})
        head, text = page.split("All that follows is the quotation:\n\n", 1)
        joined += len(text)
        more = re.search(r"open again with from: (\d+)", head)
        if not more:
            break
        start = int(more[1])
        if start > 60_000:
            # The rest is as the first; the last page has its own end.
            count = int(re.search(r"of (\d+)", head)[1])
            assert count > 900_000, count
            start = count - 10
            page = await works(client, "recall_open", recall_id=handle, session=ground.long, **{"from": start})
            assert page.endswith("in step 3\n"), page[-100:]
            return
    raise AssertionError(f"{joined} characters are no huge block")


async def compactions_come_and_go(client, ground):
    session = ground.small
    assert "the whole session is sent again" in await works(client, "undo", session=session)
    await fails(client, "undo", {"session": session}, "nothing to undo")
    assert "is active again" in await works(client, "undo", session=session, redo=True)
    await fails(client, "undo", {"session": session, "redo": True}, "nothing to redo")
    await works(client, "undo", session=session)
    preview = await works(client, "compress", session=session, preview="true", focus="target 7")
    assert "nothing was changed" in preview and "would become" in preview, preview
    await fails(client, "undo", {"session": session}, "nothing to undo")
    done = await works(client, "compress", session=session, focus="target 7")
    assert "is active" in done and "tokens became" in done, done
    found = await works(client, "recall_search", session=session, query="mismatched types in step 5")
    assert "step 5" in found, found


async def hostile_calls_are_one_line(client, ground):
    megabyte = "x" * (1 << 20)
    for tool, arguments in [
        ("recall_search", {}),
        ("recall_search", {"query": ""}),
        ("recall_search", {"query": 7}),
        ("recall_search", {"query": ["a"]}),
        ("recall_search", {"query": None}),
        ("recall_search", {"query": "a", "limit": -1}),
        ("recall_search", {"query": "a", "limit": "many"}),
        ("recall_search", {"query": "a", "tenant": "other"}),
        ("recall_open", {}),
        ("recall_open", {"recall_id": megabyte}),
        ("recall_open", {"recall_id": "' OR 1=1 --"}),
        ("recall_open", {"recall_id": "../../etc/passwd"}),
        ("recall_open", {"recall_id": "a\u0000b"}),
        ("recall_open", {"recall_id": "zzzzzzzzzz"}),
        ("recall_open", {"recall_id": "zzzzzzzzzz", "from": 1e300}),
        ("recall_outline", {"from": -1}),
        ("recall_outline", {"from": 10**9}),
        ("recall_outline", {"from": {"$gt": 0}}),
        ("recall_outline", {megabyte: 1}),
        ("recall_outline", {"session": "' OR 1=1 --"}),
        ("recall_outline", {"session": megabyte}),
        ("recall_outline", {"session": 12}),
        ("recall_outline", {"session": "%"}),
        ("status", {"session": "\u0000"}),
        ("status", {"session": "nobody"}),
        ("status", {"everything": True}),
        ("compress", {"preview": "perhaps"}),
        ("compress", {"focus": 12}),
        ("compress", {"session": "../store.db"}),
        ("compress", {"to": "/etc/passwd"}),
        ("undo", {"redo": 1}),
        ("undo", {"session": []}),
    ]:
        await fails(client, tool, arguments)
    for query in ["'; DROP TABLE messages; --", "a\u0000b", "%", "NEAR(a b)", "\u202e", "word " * 200_000]:
        await works(client, "recall_search", query=query, limit=10**6)
    try:
        await client.call_tool("no_such_tool", {})
        raise AssertionError("an unknown tool was called")
    except AssertionError:
        raise
    except Exception as error:
        assert "unknown tool" in str(error), error


async def all_of_it(client, ground):
    await tools_are_listed(client)
    await every_tool_works(client, ground)
    await compactions_come_and_go(client, ground)
    await hostile_calls_are_one_line(client, ground)


async def over_stdio(ground):
    for mode in ("auto", "legacy"):
        async with Client(ground.stdio(), mode=mode) as client:
            await all_of_it(client, ground)
    async with Client(ground.stdio("--session", ground.example)) as client:
        assert "Port the parser" not in await works(client, "recall_outline")


async def over_http(ground):
    with ground.listening() as url:
        for mode in ("auto", "legacy"):
            async with Client(url, mode=mode) as client:
                await all_of_it(client, ground)
            # Several at once.
            async with Client(url, mode=mode) as client:
                asked = [works(client, "recall_search", query=f"target{n}", session=ground.long) for n in range(8)]
                assert all("target" in found for found in await asyncio.gather(*asked))
        only_this_machine_is_answered(url)


def posted(url, headers, method="POST"):
    body = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "tools/list"}).encode()
    standard = {"content-type": "application/json", "accept": "application/json, text/event-stream"}
    request = urllib.request.Request(url, body if method == "POST" else None, {**standard, **headers}, method=method)
    try:
        with urllib.request.urlopen(request, timeout=10) as response:
            return response.status
    except urllib.error.HTTPError as error:
        return error.code


def only_this_machine_is_answered(url):
    assert posted(url, {}) == 200
    assert posted(url, {"origin": "http://localhost:3000"}) == 200
    for origin in ["https://evil.example", "null", "http://localhost.evil.example", "http://192.168.1.9"]:
        assert posted(url, {"origin": origin}) == 403, origin
    for host in ["evil.example", "127.0.0.1.evil.example", "localhost.evil.example:80"]:
        assert posted(url, {"host": host}) == 403, host
    assert posted(url, {}, "GET") == 405
    assert posted(url.replace("/mcp", "/"), {}) == 404


async def keys_lead_to_their_own_sessions(ground):
    done = subprocess.run([ground.program, "mcp", "--store", ground.store, "--listen", "0.0.0.0:0"],
                          env=ground.environment, capture_output=True, text=True, timeout=20)
    assert done.returncode == 2 and "longhaul keys add" in done.stderr, done.stderr
    made = ground.run("keys", "add", "somebody", "--tenant", "somebody", "--store", ground.store)
    key = made.strip()
    own = ground.run("keys", "add", "mine", "--tenant", "local", "--store", ground.store)
    with ground.listening("0.0.0.0:0") as url:
        url = url.replace("0.0.0.0", "127.0.0.1")
        assert posted(url, {}) == 401
        assert posted(url, {"x-longhaul-key": "lh-wrong"}) == 401
        assert posted(url, {"authorization": "Bearer nothing"}) == 401
        assert posted(url, {"x-longhaul-key": key, "origin": "https://evil.example"}) == 403
        async with keyed(url, {"x-longhaul-key": key}) as client:
            await fails(client, "recall_outline", {"session": ground.long}, "there is no session")
            await fails(client, "compress", {"session": ground.long}, "there is no session")
            await fails(client, "status", {}, "there are no sessions")
        async with keyed(url, {"authorization": f"Bearer {own.strip()}"}) as client:
            assert ground.long in await works(client, "status")


def keyed(url, headers):
    return Client(streamable_http_client(url, http_client=create_mcp_http_client(headers=headers)))


def nothing_but_the_protocol_is_written(ground):
    """It ends with its input, and what is no message is no end."""
    server = [ground.program, "mcp", "--store", ground.store]
    done = subprocess.run(server, env=ground.environment, input="", capture_output=True, text=True, timeout=20)
    assert (done.returncode, done.stdout) == (0, ""), done
    initialize = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {
        "protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}}}
    ready = {"jsonrpc": "2.0", "method": "notifications/initialized"}
    last = {"jsonrpc": "2.0", "id": 2, "method": "tools/list"}
    lines = [json.dumps(initialize), json.dumps(ready), "this is no message", "{", json.dumps(last)]
    process = subprocess.Popen(server, env=ground.environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                               stderr=subprocess.PIPE, text=True)
    process.stdin.write("\n".join(lines) + "\n")
    process.stdin.flush()
    answers = []
    while not any(answer.get("id") == 2 for answer in answers):
        line = process.stdout.readline()
        assert line, process.stderr.read()
        answers.append(json.loads(line))
    process.stdin.close()
    assert process.wait(timeout=20) == 0
    for line in process.stdout:
        json.loads(line)


async def main():
    with tempfile.TemporaryDirectory(prefix="longhaul-mcp-") as folder:
        ground = Ground(sys.argv[1], folder)
        nothing_but_the_protocol_is_written(ground)
        await over_stdio(ground)
        await over_http(ground)
        await keys_lead_to_their_own_sessions(ground)
    print("every tool works over both transports")


if __name__ == "__main__":
    begun = time.monotonic()
    asyncio.run(main())
    print(f"{time.monotonic() - begun:.0f} s")
