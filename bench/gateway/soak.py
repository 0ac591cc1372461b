"""A thousand clients of all kinds at once on one gateway: the longest stall, the health check, and the memory it takes.

The clients, the upstream and the gateway are three processes on this machine. Needs nothing but Python and, for PostgreSQL, its server
programs (LONGHAUL_POSTGRES_BIN, or the newest of /usr/lib/postgresql).
"""
import argparse
import asyncio
import collections
import glob
import json
import os
import pathlib
import random
import resource
import shutil
import socket
import subprocess
import sys
import tempfile
import time

# The goals, and the memory that the gateway may take at most: the room for bodies (gateway.max_bodies_bytes, 256 MiB), about twice that
# for what is made of them while they are worked on, and 256 sessions at about 1 MiB each.
MAX_STALL = 2.0
MAX_HEALTH = 0.1
MAX_MEMORY_MB = 1024
# A request that takes longer than this has failed.
TIMEOUT = 60
# The model's window is small, so that long sessions are compacted.
MODEL, WINDOW = "soak-model", 48_000
# An event stream of the upstream: so many events, so many seconds apart.
EVENTS, TICK = 10, 0.15

# Of each thousand clients: who they are, how many turns their sessions begin and end with, how many come with a request at most, and the
# seconds between two requests.
ROLES = {
    "count_tokens": (250, 10, 60, 3, 8.0),
    "stream": (450, 4, 80, 3, 10.0),
    "compaction": (150, 60, 190, 12, 15.0),
    "command": (100, 20, 60, 3, 12.0),
    "dashboard": (50, 0, 0, 1, 6.0),
}
COMMANDS = ["/context", "/compress the failing test", "/recall mismatched types", "/undo"]
PAGES = ["/", "/api/sessions", "/api/overview", "/metrics"]


def message(n):
    """One turn of an agent: a call, and its result of some 1.5 KB."""
    lines = "\n".join(f"compiling unit {n}_{line} of the project: {(n * 7919 + line * 104729) % 1_000_003:x}" for line in range(24))
    reply = {"role": "assistant", "content": [
        {"type": "text", "text": f"Target {n} does not build yet; I will look at src/file{n}.rs."},
        {"type": "tool_use", "id": f"toolu_{n}", "name": "bash", "input": {"command": f"make target{n}"}}]}
    result = {"role": "user", "content": [
        {"type": "tool_result", "tool_use_id": f"toolu_{n}", "content": f"{lines}\nsrc/file{n}.rs:17: error: mismatched types in step {n}\n"}]}
    return (json.dumps(reply) + "," + json.dumps(result)).encode()


TURNS = [message(n) for n in range(200)]


def body(name, turns, stream=False, command=None):
    """A request of a client whose history has so many turns. Each client's sessions are its own by their first message."""
    opening = {"model": MODEL, "max_tokens": 1000, "stream": stream, "system": "You are careful."}
    first = {"role": "user", "content": f"Make the build of {name} green. Never touch the tests."}
    messages = [json.dumps(first).encode(), *TURNS[:turns]]
    if command:
        messages += [b'{"role":"assistant","content":"Done so far."}', json.dumps({"role": "user", "content": command}).encode()]
    return json.dumps(opening).encode()[:-1] + b',"messages":[' + b",".join(messages) + b"]}"


class Failure(Exception):
    """A request that was not answered as it should have been."""


class Connection:
    """One connection that is kept alive, and how long each part of an answer took."""

    def __init__(self, address):
        self.address, self.streams = address, None

    async def request(self, method, path, payload=b""):
        """The status, and the longest time in which nothing came."""
        async with asyncio.timeout(TIMEOUT):
            for attempt in range(2):
                if self.streams is None:
                    self.streams = await asyncio.open_connection(*self.address, limit=1 << 20)
                try:
                    return await self.once(method, path, payload)
                except (ConnectionError, asyncio.IncompleteReadError):
                    # An idle connection may be closed just when it is used again.
                    self.close()
                    if attempt:
                        raise
        return None

    async def once(self, method, path, payload):
        reader, writer = self.streams
        head = f"{method} {path} HTTP/1.1\r\nhost: localhost\r\naccept: */*\r\ncontent-type: application/json\r\n"
        head += f"anthropic-version: 2023-06-01\r\nx-api-key: sk-soak\r\ncontent-length: {len(payload)}\r\n\r\n"
        writer.write(head.encode() + payload)
        await writer.drain()
        last, longest = time.monotonic(), 0.0

        def came():
            nonlocal last, longest
            now = time.monotonic()
            longest, last = max(longest, now - last), now

        lines = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
        came()
        status = int(lines[0].split()[1])
        headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines[1:])}
        if "content-length" in headers:
            await reader.readexactly(int(headers["content-length"]))
            came()
        elif headers.get("transfer-encoding") == "chunked":
            while size := int(await reader.readline(), 16):
                await reader.readexactly(size + 2)
                came()
            await reader.readline()
        if headers.get("connection") == "close":
            self.close()
        return status, longest, headers.get("x-longhaul-action", "")

    def close(self):
        if self.streams:
            self.streams[1].close()
        self.streams = None


class Seen:
    """What came of all requests."""

    def __init__(self):
        self.stalls = collections.defaultdict(list)
        self.failures, self.actions, self.health = collections.Counter(), collections.Counter(), []

    def failed(self, role, what):
        self.failures[f"{role}: {what}"] += 1


async def client(n, role, address, seen, end, ramp):
    _, begin, most, growth, pause = ROLES[role]
    dice = random.Random(n)
    connection, turns, session = Connection(address), begin, 0
    await asyncio.sleep(dice.uniform(0, ramp))
    while time.monotonic() < end:
        name = f"client {n} session {session}"
        if role == "count_tokens":
            asked = "POST", "/v1/messages/count_tokens", body(name, turns)
        elif role == "command":
            asked = "POST", "/v1/messages", body(name, turns, command=dice.choice(COMMANDS))
        elif role == "dashboard":
            asked = "GET", dice.choice(PAGES), b""
        else:
            asked = "POST", "/v1/messages", body(name, turns, stream=role == "stream")
        try:
            status, longest, action = await connection.request(*asked)
            seen.stalls[role].append(longest - (TICK if role == "stream" else 0))
            seen.actions[action or "-"] += 1
            if status != 200:
                seen.failed(role, f"status {status}")
        except (OSError, asyncio.IncompleteReadError, TimeoutError, ValueError) as error:
            seen.failed(role, type(error).__name__)
            connection.close()
        turns += dice.randint(1, growth)
        if turns > most:
            turns, session = begin, session + 1
        await asyncio.sleep(dice.expovariate(1 / pause))
    connection.close()


async def health(address, seen, end):
    while time.monotonic() < end:
        connection, began = Connection(address), time.monotonic()
        try:
            status, _, _ = await connection.request("GET", "/healthz")
            seen.health.append(time.monotonic() - began)
            if status != 200:
                seen.failed("health", f"status {status}")
        except (OSError, asyncio.IncompleteReadError, TimeoutError) as error:
            seen.failed("health", type(error).__name__)
        connection.close()
        await asyncio.sleep(0.25)


async def own_delay(delays, end):
    """How late this process itself is woken: what a stall cannot be told from."""
    while time.monotonic() < end:
        began = time.monotonic()
        await asyncio.sleep(0.05)
        delays.append(time.monotonic() - began - 0.05)


async def load(address, clients, seconds):
    seen, delays, end = Seen(), [], time.monotonic() + seconds
    each = [role for role, (share, *_) in ROLES.items() for _ in range(round(share * clients / 1000))]
    ramp = min(20, seconds / 4)
    work = [client(n, role, address, seen, end, ramp) for n, role in enumerate(each)]
    await asyncio.gather(*work, health(address, seen, end), own_delay(delays, end))
    return seen, delays, len(each)


# The upstream: it takes everything, and answers at once.

async def answer(reader, writer):
    try:
        while True:
            head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").lower()
            path, length = head.split(" ", 2)[1], int(head.partition("content-length:")[2].split("\r", 1)[0] or 0)
            start, rest = b"", length
            while rest:
                piece = await reader.read(min(rest, 1 << 18))
                if not piece:
                    return
                start, rest = start or piece, rest - len(piece)
            usage = {"input_tokens": length // 4, "output_tokens": 20}
            if b'"stream": true' in start[:300]:
                await events(writer, usage)
                continue
            said = {"input_tokens": length // 4} if path.endswith("count_tokens") else {
                "id": "msg_1", "type": "message", "role": "assistant", "model": MODEL, "content": [{"type": "text", "text": "Done."}],
                "stop_reason": "end_turn", "stop_sequence": None, "usage": usage}
            said = json.dumps(said).encode()
            writer.write(b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n" % len(said) + said)
            await writer.drain()
    except (ConnectionError, asyncio.IncompleteReadError):
        pass
    finally:
        writer.close()


async def events(writer, usage):
    writer.write(b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n")

    async def say(event):
        data = f"event: {event['type']}\ndata: {json.dumps(event)}\n\n".encode()
        writer.write(b"%x\r\n" % len(data) + data + b"\r\n")
        await writer.drain()

    message = {"id": "msg_1", "type": "message", "role": "assistant", "model": MODEL, "content": [], "stop_reason": None, "usage": usage}
    await say({"type": "message_start", "message": message})
    await say({"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}})
    for n in range(EVENTS):
        await asyncio.sleep(TICK)
        await say({"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": f"word {n} "}})
    await say({"type": "content_block_stop", "index": 0})
    await say({"type": "message_delta", "delta": {"stop_reason": "end_turn", "stop_sequence": None}, "usage": {"output_tokens": 20}})
    await say({"type": "message_stop"})
    writer.write(b"0\r\n\r\n")
    await writer.drain()


async def upstream(port):
    server = await asyncio.start_server(answer, "127.0.0.1", port, limit=1 << 20, backlog=4096)
    await server.serve_forever()


# What runs beside it.

def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def reachable(port, seconds=30):
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        try:
            return socket.create_connection(("127.0.0.1", port), timeout=1).close()
        except OSError:
            time.sleep(0.05)
    raise Failure(f"nothing listens on port {port}")


class Postgres:
    """A server in a folder of its own."""

    def __init__(self, folder):
        programs = os.environ.get("LONGHAUL_POSTGRES_BIN") or (sorted(glob.glob("/usr/lib/postgresql/*/bin")) or [None])[-1]
        if not programs:
            raise Failure("no PostgreSQL server: install it, or set LONGHAUL_POSTGRES_BIN to the folder with initdb")
        self.programs, self.data, self.port = pathlib.Path(programs), folder / "data", free_port()
        self.before = ["runuser", "-u", "postgres", "--"] if os.geteuid() == 0 else []
        if self.before:
            shutil.chown(folder, "postgres")
            folder.chmod(0o755)
        self.run("initdb", "--no-sync", "-A", "trust", "-U", "soak", "-E", "UTF8", "-D", self.data)
        options = f"-p {self.port} -k {folder} -c listen_addresses=127.0.0.1 -c shared_buffers=64MB"
        self.run("pg_ctl", "-w", "-s", "-l", folder / "log", "-o", options, "start", "-D", self.data)
        self.url = f"postgres://soak@127.0.0.1:{self.port}/postgres"

    def run(self, program, *arguments):
        command = [*self.before, self.programs / program, *arguments]
        subprocess.run([str(word) for word in command], check=True, stdout=subprocess.DEVNULL, cwd="/")

    def stop(self):
        self.run("pg_ctl", "-w", "-s", "stop", "-m", "immediate", "-D", self.data)


def status_of(process, key):
    with open(f"/proc/{process.pid}/status") as lines:
        return next(int(line.split()[1]) for line in lines if line.startswith(key))


def quantile(values, share):
    values = sorted(values)
    return values[min(len(values) - 1, int(len(values) * share))] if values else float("nan")


def run(kind, arguments):
    folder = pathlib.Path(tempfile.mkdtemp(prefix="longhaul-soak-"))
    processes, postgres = [], None
    try:
        postgres = Postgres(folder) if kind == "postgres" else None
        origin, port = free_port(), free_port()
        processes.append(subprocess.Popen([sys.executable, __file__, "--upstream", str(origin)]))
        config = folder / "longhaul.yaml"
        config.write_text(json.dumps({"models": {MODEL: {"context_length": WINDOW}}}))
        command = [arguments.program, "serve", "--config", config, "--listen", f"127.0.0.1:{port}", "--upstream", f"http://127.0.0.1:{origin}"]
        command += ["--store", postgres.url if postgres else folder / "store.db"]
        with open(folder / "gateway.log", "w") as log:
            environment = {**os.environ, "LONGHAUL_GATEWAY__LOG_LEVEL": "warn"}
            gateway = subprocess.Popen([str(word) for word in command], stdout=log, stderr=log, env=environment)
        processes.append(gateway)
        reachable(origin)
        reachable(port)
        busy = os.getloadavg()[0]
        seen, delays, clients = asyncio.run(load(("127.0.0.1", port), arguments.clients, arguments.seconds))
        if gateway.poll() is not None:
            raise Failure(f"the gateway ended: {(folder / 'gateway.log').read_text()[-500:]}")
        memory, threads = status_of(gateway, "VmHWM") / 1024, status_of(gateway, "Threads")
        return told(kind, arguments, seen, delays, clients, memory, threads, busy)
    finally:
        for process in reversed(processes):
            process.terminate()
            process.wait()
        if postgres:
            postgres.stop()
        shutil.rmtree(folder, ignore_errors=True)


def told(kind, arguments, seen, delays, clients, memory, threads, busy):
    stalls = [stall for all_of_role in seen.stalls.values() for stall in all_of_role]
    print(f"\n{kind}: {clients} clients, {arguments.seconds:.0f} s, {len(stalls)} requests, {len(stalls) / arguments.seconds:.0f} a second")
    print(f"  on {os.cpu_count()} cores, load {busy:.1f} before; these clients were woken late by {max(delays) * 1000:.0f} ms at most")
    for role, times in sorted(seen.stalls.items()):
        print(f"  {role:13} {len(times):6} requests, stall P50 {quantile(times, .5) * 1000:5.0f}  P99 {quantile(times, .99) * 1000:5.0f}  max {max(times) * 1000:5.0f} ms")
    print(f"  actions: {', '.join(f'{action} {count}' for action, count in seen.actions.most_common())}")
    goals = [
        ("longest stall", max(stalls, default=0.0), MAX_STALL, "s"),
        ("health check, longest", max(seen.health, default=0.0), MAX_HEALTH, "s"),
        ("health check, P99", quantile(seen.health, .99), MAX_HEALTH, "s"),
        ("memory", memory, MAX_MEMORY_MB, "MB"),
    ]
    is_well = not seen.failures
    for name, value, most, unit in goals:
        verdict = "" if value <= most else f"  MISSED: the goal is {most} {unit}"
        is_well = is_well and (arguments.goals == "off" or not verdict)
        print(f"  {name}: {value:.3f} {unit}{verdict}" if unit == "s" else f"  {name}: {value:.0f} {unit}{verdict}")
    print(f"  threads: {threads}")
    for failure, count in seen.failures.most_common():
        print(f"  FAILED {count} times: {failure}")
    record = {"store": kind, "clients": clients, "seconds": arguments.seconds, "requests": len(stalls), "load_before": busy,
              "woken_late_ms": round(max(delays) * 1000), "stall_max_s": round(max(stalls, default=0), 3),
              "health_max_s": round(max(seen.health, default=0), 3), "health_p99_s": round(quantile(seen.health, .99), 3),
              "memory_mb": round(memory), "threads": threads, "failures": sum(seen.failures.values()), "actions": dict(seen.actions)}
    if arguments.record:
        with open(arguments.record, "a") as out:
            print(json.dumps(record), file=out)
    return is_well


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--store", choices=["sqlite", "postgres", "both"], default="both")
    parser.add_argument("--clients", type=int, default=1000)
    parser.add_argument("--seconds", type=float, default=300)
    parser.add_argument("--program", default="target/release/longhaul")
    parser.add_argument("--goals", choices=["on", "off"], default="on", help="off: only requests that fail count, for a busy machine")
    parser.add_argument("--record", help="append the figures to this file, as JSON")
    parser.add_argument("--upstream", type=int, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    # Each client has a connection here, and one leads on to the upstream.
    most = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    if arguments.upstream:
        asyncio.run(upstream(arguments.upstream))
    kinds = ["sqlite", "postgres"] if arguments.store == "both" else [arguments.store]
    try:
        well = [run(kind, arguments) for kind in kinds]
    except Failure as failure:
        sys.exit(f"soak: {failure}")
    sys.exit(0 if all(well) else 1)


if __name__ == "__main__":
    main()
