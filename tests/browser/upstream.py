"""A provider that says little, and counts like one: prompts in quarters of characters, and a cache of what it was sent before."""

import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

REPLY = "Understood; going on."


class Upstream:
    """The provider, and what it said of each request: prompt tokens, of which read from its cache, and output."""

    def __init__(self):
        self.usages = []
        self.failing = None
        self._sent = {}
        self._lock = threading.Lock()
        upstream = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self):
                body = self.rfile.read(int(self.headers["content-length"]))
                status, answer = upstream.answer(self.path, body)
                text = json.dumps(answer).encode()
                self.send_response(status)
                self.send_header("content-type", "application/json")
                self.send_header("content-length", str(len(text)))
                self.end_headers()
                self.wfile.write(text)

            def log_message(self, *_):
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_port}"
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def stop(self):
        self._server.shutdown()

    def answer(self, path, body):
        if self.failing is not None:
            return 400, {"error": {"type": "invalid_request_error", "message": self.failing}}
        request = json.loads(body)
        text = json.dumps(request.get("messages") or request.get("input"))
        with self._lock:
            # A session is known by how it begins.
            before = self._sent.get(text[:400], "")
            self._sent[text[:400]] = text
            prompt, output = len(body) // 4, len(REPLY) // 4
            read = common(before, text) // 4 // 128 * 128
            self.usages.append((prompt, read, output))
        model = request.get("model", "")
        if path.endswith("/messages"):
            usage = {"input_tokens": prompt - read, "cache_read_input_tokens": read, "cache_creation_input_tokens": 0,
                     "output_tokens": output}
            return 200, {"id": "msg_1", "type": "message", "role": "assistant", "model": model, "stop_reason": "end_turn",
                         "stop_sequence": None, "content": [{"type": "text", "text": REPLY}], "usage": usage}
        if path.endswith("/responses"):
            content = [{"type": "output_text", "text": REPLY, "annotations": []}]
            said = {"id": "msg_1", "type": "message", "role": "assistant", "status": "completed", "content": content}
            usage = {"input_tokens": prompt, "input_tokens_details": {"cached_tokens": read}, "output_tokens": output,
                     "total_tokens": prompt + output}
            return 200, {"id": "resp_1", "object": "response", "status": "completed", "model": model, "output": [said],
                         "usage": usage}
        usage = {"prompt_tokens": prompt, "completion_tokens": output, "total_tokens": prompt + output,
                 "prompt_tokens_details": {"cached_tokens": read}}
        choice = {"index": 0, "finish_reason": "stop", "message": {"role": "assistant", "content": REPLY}}
        return 200, {"id": "chat_1", "object": "chat.completion", "created": 1, "model": model, "choices": [choice],
                     "usage": usage}


def common(one, other):
    """How many characters two texts begin with alike."""
    low, high = 0, min(len(one), len(other))
    while low < high:
        middle = (low + high + 1) // 2
        if one[:middle] == other[:middle]:
            low = middle
        else:
            high = middle - 1
    return low
