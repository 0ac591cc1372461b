"""A scripted upstream, a gateway before it, and what a client's words are held against."""

import json
import os
import subprocess
import tempfile
import threading
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

from pydantic import BaseModel, TypeAdapter

USAGE = {"input_tokens": 11, "output_tokens": 7, "cache_creation_input_tokens": 0, "cache_read_input_tokens": 0}


class Upstream:
    """Answers every request of its API format. Where it lacks a feature it refuses what it does not know, as strict servers do; where it
    has one it answers with `canned`, byte for byte."""

    def __init__(self, canned=None):
        self.canned, self.seen = canned, []
        upstream = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def log_message(self, *_):
                pass

            def do_POST(self):
                body = self.rfile.read(int(self.headers["content-length"]))
                upstream.seen.append((self.path, dict(self.headers.items()), body))
                status, kind, answer = upstream.answer(self.path, json.loads(body))
                self.send_response(status)
                self.send_header("content-type", kind)
                self.send_header("content-length", str(len(answer)))
                self.end_headers()
                self.wfile.write(answer)

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    @property
    def url(self):
        return f"http://127.0.0.1:{self.server.server_port}"

    def last(self):
        return json.loads(self.seen[-1][2])

    def answer(self, path, body):
        if self.canned is not None:
            return 200, "application/json", self.canned
        path = path.split("?")[0]
        problem = self.unknown(path, body)
        if problem:
            error = {"type": "invalid_request_error", "message": problem}
            return 400, "application/json", json.dumps({"type": "error", "error": error}).encode()
        if path == "/v1/messages/count_tokens":
            return 200, "application/json", json.dumps({"input_tokens": len(json.dumps(body)) // 4}).encode()
        if path == "/v1/messages":
            return self.message(body)
        return self.response(body)

    def unknown(self, path, body):
        """What an upstream that lacks the features refuses."""
        if path not in ("/v1/messages", "/v1/messages/count_tokens", "/v1/responses"):
            return f"no such route: {path}"
        if "context_management" in body:
            return "context_management: Extra inputs are not permitted"
        betas = self.seen[-1][1].get("anthropic-beta", "")
        if "context-management" in betas or "compact-" in betas:
            return f"unknown beta: {betas}"
        for at, element in enumerate(body.get("messages", body.get("input", []))):
            content = element.get("content") if isinstance(element, dict) else None
            kinds = [block.get("type") for block in content] if isinstance(content, list) else []
            if element.get("type") == "compaction" or "compaction" in kinds:
                return f"{at}: compaction does not match any of the expected tags"
        calls = [item["call_id"] for item in body.get("input", []) if item.get("type") == "function_call"]
        results = [item["call_id"] for item in body.get("input", []) if item.get("type") == "function_call_output"]
        return None if calls == results else f"calls without results: {calls} {results}"

    def message(self, body):
        message = {"id": "msg_1", "type": "message", "role": "assistant", "model": body["model"],
                   "content": [{"type": "text", "text": "I go on."}], "stop_reason": "end_turn", "stop_sequence": None, "usage": USAGE}
        if not body.get("stream"):
            return 200, "application/json", json.dumps(message).encode()
        opening = {**message, "content": [], "stop_reason": None}
        end = {"type": "message_delta", "delta": {"stop_reason": "end_turn", "stop_sequence": None}, "usage": {"output_tokens": 7}}
        events = [
            {"type": "message_start", "message": opening},
            {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}},
            {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "I go "}},
            {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "on."}},
            {"type": "content_block_stop", "index": 0}, end, {"type": "message_stop"},
        ]
        stream = "".join(f"event: {event['type']}\ndata: {json.dumps(event)}\n\n" for event in events)
        return 200, "text/event-stream", stream.encode()

    def response(self, body):
        item = {"id": "msg_1", "type": "message", "role": "assistant", "status": "completed",
                "content": [{"type": "output_text", "text": "I go on.", "annotations": []}]}
        response = {"id": "resp_1", "object": "response", "created_at": 1, "model": body["model"], "status": "completed", "output": [item],
                    "parallel_tool_calls": True, "tool_choice": "auto", "tools": [], "error": None, "incomplete_details": None,
                    "instructions": None, "metadata": {}, "temperature": 1.0, "top_p": 1.0}
        return 200, "application/json", json.dumps(response).encode()


@contextmanager
def gateway(program, upstream, configuration=""):
    """`longhaul serve` before an upstream; gives its address and what it says that it serves itself."""
    with tempfile.TemporaryDirectory() as folder:
        config = Path(folder) / "longhaul.yaml"
        config.write_text(configuration)
        call = [program, "serve", "--listen", "127.0.0.1:0", "--upstream", upstream.url, "--store", f"{folder}/store.db",
                "--config", str(config), "--json"]
        environment = {"HOME": folder, "PATH": os.environ.get("PATH", ""), "LONGHAUL_GATEWAY__LOG_LEVEL": "warn"}
        with open(f"{folder}/log", "w+") as log:
            serving = subprocess.Popen(call, stdout=subprocess.PIPE, stderr=log, env=environment, text=True)
            try:
                shown = json.loads(serving.stdout.readline())
                yield shown["url"], shown["serves"]
            except BaseException:
                log.seek(0)
                print(log.read())
                raise
            finally:
                serving.terminate()
                serving.wait(20)


def strict(kind, text):
    """Reads a text as a type of the SDK, which is lenient of itself: each field of the type it declares, and none that it does not."""
    value = TypeAdapter(kind).validate_json(text, strict=True)
    declared(value, kind)
    return value


def declared(value, where):
    if isinstance(value, BaseModel):
        assert not value.model_extra, f"{where}: {value.model_extra}"
        for name in type(value).model_fields:
            declared(getattr(value, name), f"{where}.{name}")
    elif isinstance(value, list):
        for at, element in enumerate(value):
            declared(element, f"{where}[{at}]")


def output(step, lines=60):
    return "".join(f"compiling unit {step}_{line} of the project\n" for line in range(lines)) + f"src/file{step}.rs:17: error: step {step}\n"
