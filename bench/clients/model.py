#!/usr/bin/env python3
"""A model on loopback that follows a script: three dialects, JSON and streams, a window of its own, and a record of what it saw.

    model.py [--port 8585] [--window 32000] [--steps 12] [--folder DIR] [--dump DIR]

It answers Anthropic Messages (and token counts), Chat Completions and Responses in the providers' shapes. It refuses, in their
words, a prompt that is over the window and calls without results. Alone it prints a line of JSON for each request; `run.py` starts
it in its own process and gives it one `Play` for each client. With --dump every request is written to a file: where it went, its
headers without keys, its body.
"""
import argparse
import dataclasses
import gzip
import http.server
import json
import pathlib
import sys
import tempfile
import threading
import zlib

import play as plays
from dialects import chat, messages, responses

DIALECTS = {"/messages": messages, "/chat/completions": chat, "/responses": responses}
UNPACK = {"gzip": gzip.decompress, "deflate": zlib.decompress}


class Model(http.server.ThreadingHTTPServer):
    """Listens on a free port of loopback. What is answered is up to `play`."""

    daemon_threads = True

    def __init__(self, port=0, tell=lambda request: None, dump=None):
        super().__init__(("127.0.0.1", port), Answering)
        self.play = None
        self.tell = tell
        self.dump = dump      # a folder for all that arrives
        self.arrived = 0
        self.one_at_a_time = threading.Lock()

    @property
    def url(self):
        return f"http://127.0.0.1:{self.server_port}"

    def handle_error(self, request, client_address):
        """A client that leaves is no news; anything else is."""
        if not isinstance(sys.exc_info()[1], ConnectionError):
            super().handle_error(request, client_address)

    def begin(self, play, dump):
        """The next client."""
        with self.one_at_a_time:
            self.play, self.dump, self.arrived = play, dump, 0

    def start(self):
        threading.Thread(target=self.serve_forever, daemon=True).start()
        return self


class Answering(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        """Nothing: the record says it all."""

    def do_GET(self):
        self.keep({})
        path = self.path.split("?")[0]
        if self.headers.get("upgrade"):
            return self.send(426, {"error": {"message": "no connection is upgraded here", "type": "invalid_request_error"}})
        if path.endswith("/models"):
            return self.send(200, catalogue(self.server.play))
        self.send(404, {"error": {"message": f"there is nothing at {path}", "type": "not_found_error", "param": None, "code": None}})

    do_HEAD = do_PUT = do_DELETE = do_GET

    def do_POST(self):
        body = self.body()
        self.keep(body)
        path = self.path.split("?")[0]
        if path.endswith("/messages/count_tokens"):
            return self.send(200, {"input_tokens": messages.read(body).tokens})
        dialect = next((dialect for end, dialect in DIALECTS.items() if path.endswith(end)), None)
        if dialect is None:
                return self.send(404, {"error": {"message": f"there is nothing at {path}", "type": "not_found_error"}})
        seen = dialect.read(body)
        with self.server.one_at_a_time:
            play = self.server.play
            request = play.note(path, body, seen)
            refusal = self.refusal(dialect, body, seen, request)
            reply = None if refusal else play.reply(seen)
            self.server.tell(request)
        if refusal:
            return refusal()
        usage = play.usage(request, reply)
        if body.get("stream"):
            return self.stream(dialect.events(reply, body, usage))
        self.send(200, dialect.whole(reply, body, usage))

    def refusal(self, dialect, body, seen, request):
        """How the request is refused, if it is."""
        play = self.server.play
        id = f"{len(play.requests):06}"
        if seen.orphans:
            request.refused = "mispaired"
            return lambda: self.send(400, dialect.mispaired(seen.orphans, id))
        if seen.tokens <= play.window:
            return None
        request.refused = "too long"
        if dialect is responses and body.get("stream"):
            return lambda: self.stream(responses.too_long_in_stream(body, id))
        return lambda: self.send(400, dialect.too_long(seen.tokens, play.window, id))

    def keep(self, body):
        """Writes down what arrived, where that is wanted."""
        with self.server.one_at_a_time:
            self.server.arrived += 1
            number = self.server.arrived
        if self.server.dump:
            what = {"request": f"{self.command} {self.path}", "headers": kept_headers(self.headers), "body": body}
            pathlib.Path(self.server.dump, f"{number:04}.json").write_text(json.dumps(what, indent=1, ensure_ascii=False))

    def body(self):
        if self.headers.get("transfer-encoding", "").lower() == "chunked":
            raw = b"".join(iter(self.chunk, b""))
        else:
            raw = self.rfile.read(int(self.headers.get("content-length") or 0))
        unpack = UNPACK.get(self.headers.get("content-encoding", ""), lambda packed: packed)
        return json.loads(unpack(raw) or b"{}")

    def chunk(self):
        data = self.rfile.read(int(self.rfile.readline().split(b";")[0], 16))
        self.rfile.readline()
        return data

    def send(self, status, answer):
        data = json.dumps(answer).encode()
        self.send_response(status)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(data)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(data)

    def stream(self, events):
        self.send_response(200)
        self.send_header("content-type", "text/event-stream; charset=utf-8")
        self.send_header("transfer-encoding", "chunked")
        self.end_headers()
        for event in events:
            self.wfile.write(b"%x\r\n%s\r\n" % (len(event), event))
            self.wfile.flush()
        self.wfile.write(b"0\r\n\r\n")


def kept_headers(headers):
    """The headers without what they carry of keys."""
    secret = ("authorization", "x-api-key")
    return {name.lower(): f"({value.split()[0] if ' ' in value else 'key'} …)" if name.lower() in secret else value
            for name, value in headers.items()}


def catalogue(play):
    """The list of models, in a shape that both providers' clients read."""
    ids = sorted({request.model for request in play.requests}) or ["scripted"]
    rows = [{"id": id, "object": "model", "type": "model", "display_name": id, "created": 0, "created_at": "2026-01-01T00:00:00Z",
             "owned_by": "nobody"} for id in ids]
    return {"object": "list", "data": rows, "has_more": False, "first_id": ids[0], "last_id": ids[-1]}


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--port", type=int, default=8585)
    parser.add_argument("--window", type=int, default=32_000)
    parser.add_argument("--steps", type=int, default=12)
    parser.add_argument("--size", type=int, default=12_000, help="characters of each file")
    parser.add_argument("--folder", help="where the files to read are put; a new temporary folder if not given")
    parser.add_argument("--dump", help="a folder that is there, for every request in full")
    args = parser.parse_args()
    folder = args.folder or tempfile.mkdtemp()
    plays.lay_out(folder, args.steps, args.size)
    model = Model(args.port, tell=lambda request: print(json.dumps(dataclasses.asdict(request)), flush=True), dump=args.dump)
    model.play = plays.Play(folder, args.window, args.steps, "kestrel")
    print(json.dumps({"listens": model.url, "folder": folder}), flush=True)
    try:
        model.serve_forever()
    except KeyboardInterrupt:
        pass


if __name__ == "__main__":
    main()
