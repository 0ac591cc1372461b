"""A gateway as it was built, on a store of its own, with the windows of some models made small."""

import json
import os
import subprocess
import tempfile
import urllib.error
import urllib.request
from pathlib import Path

from sessions import MODEL, hostile

WINDOWS = {"gpt-5": 24_000, "gpt-5-codex": 14_000, "claude-sonnet-4-5": 20_000, MODEL: 60_000}


class Gateway:
    def __init__(self, program, upstream, keys=False):
        self.program, self.upstream = program, upstream
        self._folder = tempfile.TemporaryDirectory(prefix="longhaul-browser-")
        self.folder = Path(self._folder.name)
        self.store = str(self.folder / "store.db")
        configuration = self.folder / "longhaul.yaml"
        # JSON is YAML.
        models = {model: {"context_length": window} for model, window in WINDOWS.items()}
        configuration.write_text(json.dumps({"models": models, "gateway": {"require_keys": keys}}))
        self.environment = {"HOME": str(self.folder), "PATH": os.environ.get("PATH", "")}
        self.sent = 0
        log = (self.folder / "log.txt").open("w")
        args = [program, "serve", "--json", "--listen", "127.0.0.1:0", "--upstream", f"{upstream.url}/v1", "--store", self.store,
                "--config", str(configuration)]
        self._process = subprocess.Popen(args, env=self.environment, stdout=subprocess.PIPE, stderr=log, text=True)
        line = self._process.stdout.readline()
        assert line, (self.folder / "log.txt").read_text()
        self.url = json.loads(line)["url"].rstrip("/")

    def stop(self):
        self._process.terminate()
        assert self._process.wait(timeout=40) == 0, (self.folder / "log.txt").read_text()[-2000:]
        self._folder.cleanup()

    def run(self, *args):
        done = subprocess.run([self.program, *args, "--store", self.store], env=self.environment, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        return done.stdout.strip()

    def send(self, session, body, expect=200):
        headers = {"content-type": "application/json", "authorization": "Bearer sk-none", **session.headers}
        request = urllib.request.Request(self.url + session.path, json.dumps(body).encode(), headers)
        try:
            with urllib.request.urlopen(request, timeout=60) as response:
                status, answer, action = response.status, response.read(), response.headers["x-longhaul-action"]
        except urllib.error.HTTPError as error:
            status, answer, action = error.code, error.read(), None
        assert status == expect, (status, answer[:500])
        self.sent += 1
        return action

    def replay(self, session):
        for body in session.bodies:
            self.send(session, body)

    def replay_until_compacted(self, session):
        assert any(self.send(session, body) == "compacted" for body in session.bodies)

    def replay_hostile(self):
        """The payloads, and an error that is one, too."""
        session = hostile()
        self.replay(session)
        self.upstream.failing = "<script class=pwned>window.pwned=1;alert('pwned')</script>{{7*7}}"
        try:
            self.send(session, session.bodies[-1], 400)
        finally:
            self.upstream.failing = None
        return session

    def ask(self, path):
        with urllib.request.urlopen(self.url + path, timeout=60) as response:
            return json.loads(response.read())

    def names(self):
        return [session["name"] for session in self.ask("/api/sessions")["sessions"]]
