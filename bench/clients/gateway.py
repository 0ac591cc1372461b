"""The gateway as its own process, with a configuration that gives the models a small window."""
import collections
import json
import re
import shutil
import socket
import subprocess
import time
import urllib.error
import urllib.request

PATIENCE = 20


class Trouble(Exception):
    """The gateway does not run."""


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


class Gateway:
    def __init__(self, binary, upstream, windows, folder):
        # An old store would know these sessions, for each run says the same, and would replay what was decided then.
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        settings = folder / "longhaul.yaml"
        settings.write_text(json.dumps({"models": {name: {"context_length": window} for name, window in windows.items()}}))
        address = f"127.0.0.1:{free_port()}"
        self.url = f"http://{address}"
        self.log = folder / "gateway.log"
        command = [binary, "serve", "--listen", address, "--upstream", upstream, "--store", str(folder / "store.db"), "--config", str(settings)]
        try:
            with open(self.log, "w") as log:
                self.process = subprocess.Popen(command, stdout=log, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL)
        except OSError as error:
            raise Trouble(f"{binary} cannot be started: {error.strerror}") from error
        self.wait()

    def wait(self):
        end = time.monotonic() + PATIENCE
        while time.monotonic() < end and self.process.poll() is None:
            try:
                return urllib.request.urlopen(f"{self.url}/healthz", timeout=1).close()
            except (urllib.error.URLError, OSError):
                time.sleep(0.05)
        self.stop()
        last = self.log.read_text().strip().splitlines()[-1:]
        raise Trouble(f"the gateway did not come up: {' '.join(last)} (all of it: {self.log})")

    def did(self):
        """What it says it did with the requests so far: compacted, replayed, bypassed …, each with a count."""
        with urllib.request.urlopen(f"{self.url}/metrics", timeout=5) as answer:
            rows = re.findall(r'^longhaul_requests_total\{[^}]*action="(\w+)"[^}]*\} (\d+)', answer.read().decode(), re.M)
        total = collections.Counter()
        for action, count in rows:
            total[action] += int(count)
        return total

    def stop(self):
        if self.process.poll() is None:
            self.process.terminate()
            try:
                self.process.wait(timeout=10)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()
