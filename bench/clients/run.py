#!/usr/bin/env python3
"""Real agents and SDKs through the gateway, each in a tool loop that does not fit into the model's window.

    run.py [--longhaul target/release/longhaul] [--only NAME]... [--direct] [--work target/clients]

Installs the clients' ordinary packages into the work folder, starts a scripted model and `longhaul serve` in front of it, runs one
client after the other, and prints a table. Exits with 1 if a client did not end with the code word, a call lost its result, nothing was
compacted, a prompt's beginning changed without a compaction, a request went by untouched, or a client heard of the recall tools that the
model was offered behind its back. With --direct there is no gateway, and the
window is large: whether the clients and this script work at all.
"""
import argparse
import collections
import dataclasses
import json
import os
import pathlib
import secrets
import shutil
import signal
import subprocess
import sys
import time

import clients
import gateway
import install
import model
import play
import seal

ROOT = pathlib.Path(__file__).resolve().parents[2]
LARGE = 10_000_000
COLUMNS = ["client", "version", "steps", "requests", "aside", "largest", "refused", "orphans", "rewritten", "compacted", "bypassed",
           "summaries", "of them cached", "checkpoint", "recalls", "seconds", "ended"]


@dataclasses.dataclass
class Outcome:
    """One row of the table."""

    client: clients.Client
    window: int
    requests: list
    steps: int
    seconds: float
    said: bool             # the code word, with exit code 0
    did: dict              # what the gateway says it did, by kind; empty without one
    recalls: int           # how often the model reached back
    told: bool             # the client was told of that

    @property
    def main(self):
        return [request for request in self.requests if request.main]

    @property
    def summaries(self):
        """The summaries that the gateway asked for, which the client knows nothing of."""
        return [request for request in self.requests if request.background]

    @property
    def rewritten(self):
        return sum(request.rewritten for request in self.main)

    def row(self):
        main, summaries = self.main, self.summaries
        cached = sum(request.kept for request in summaries) / max(1, sum(request.tokens for request in summaries))
        return [
            self.client.name, self.client.pin, self.steps, len(main), len(self.requests) - len(main) - len(summaries),
            f"{max((request.tokens for request in main), default=0)}/{self.window}",
            sum(request.refused is not None for request in self.requests), sum(len(request.orphans) for request in self.requests),
            self.rewritten, self.did["compacted"], self.did["bypassed"], len(summaries),
            f"{cached:.2f}" if summaries else "-", "yes" if any(request.checkpoint for request in main) else "no",
            self.recalls, f"{self.seconds:.0f}", "yes" if self.said else "NO"]


def judge(outcome, args):
    """What does not hold of what must."""
    compacted, bypassed = outcome.did["compacted"], outcome.did["bypassed"]
    wrong = {
        "did not end with the code word": not outcome.said,
        f"made {outcome.steps} of {args.steps} steps": outcome.steps < args.steps,
        "a call and its result were parted": any(request.orphans for request in outcome.requests),
        "nothing was compacted": not args.direct and not outcome.rewritten,
        f"the prompt's beginning changed {outcome.rewritten} times with {compacted} compactions": outcome.rewritten > compacted,
        f"{bypassed} requests went by the gateway untouched": bypassed > 0,
        "the model could not reach back": not args.direct and not outcome.recalls,
        "the client was told of calls that are not its own": outcome.told,
    }
    return [what for what, is_so in wrong.items() if is_so]


def start(client, at, folder, limit):
    """Runs a client to its end, or ends it. What it wrote is in `client.log` beside its folder."""
    variables = {"PATH": os.environ["PATH"], "LANG": "C.UTF-8", "HOME": str(at.home), **clients.KEYS, **client.variables(at)}
    log = at.home.parent / "client.log"
    with open(log, "wb") as out:
        process = subprocess.Popen(client.command(at), cwd=folder, env=variables, stdin=subprocess.DEVNULL, stdout=out,
                                   stderr=subprocess.STDOUT, start_new_session=True)
        try:
            code = process.wait(timeout=limit)
        except subprocess.TimeoutExpired:
            code = None
        finally:
            end_group(process.pid)
            process.wait()
    return code, log.read_text(errors="replace")


def end_group(leader):
    """Ends what a client left running: it and its children are a group of their own."""
    try:
        os.killpg(leader, signal.SIGKILL)
    except ProcessLookupError:
        pass


def drive(client, server, between, args):
    """One client, from an empty home to its last word."""
    own = args.work / "runs" / client.name.replace(" ", "-")
    shutil.rmtree(own, ignore_errors=True)
    home, folder, dump = own / "home", own / "repository", own / "requests"
    for new in (home, folder, dump):
        new.mkdir(parents=True)
    subprocess.run(["git", "init", "-q", str(folder)], check=True)
    play.lay_out(folder, args.steps, args.size)
    word = f"kestrel-{secrets.token_hex(3)}"
    window = args.window or (LARGE if args.direct else client.window)
    server.begin(play.Play(folder, window, args.steps, word, client.farewell), dump)
    before = between.did() if between else collections.Counter()
    began = time.monotonic()
    url = between.url if between else server.url
    code, said = start(client, clients.At(url, home, args.work / "tools"), folder, args.limit)
    seconds = time.monotonic() - began
    did = between.did() - before if between else before
    outcome = Outcome(client, window, server.play.requests, server.play.made, seconds, code == 0 and word in said, did,
                      server.play.recalls, play.RECALL in said)
    (own / "requests.jsonl").write_text("".join(json.dumps(dataclasses.asdict(request)) + "\n" for request in outcome.requests))
    return outcome


def table(rows):
    widths = [max(len(str(row[at])) for row in rows) for at in range(len(rows[0]))]
    return "\n".join("  ".join(str(cell).ljust(width) for cell, width in zip(row, widths)).rstrip() for row in rows)


def wanted(args):
    """The clients that are asked for and can be had; what cannot is said."""
    there, missing = [], []
    for client in clients.CLIENTS:
        if args.only and not any(client.name.startswith(name) for name in args.only):
            continue
        try:
            print(f"{client.name}: {client.package} {client.pin} by {client.registry}", file=sys.stderr)
            install.install(client, args.work / "tools", args.work / "install.log")
            there.append(client)
        except install.Missing as why:
            missing.append(f"{client.name}: cannot be installed here: {why}")
    return there, missing


def arguments():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--longhaul", type=pathlib.Path, help="the program; target/release/longhaul, else target/debug/longhaul")
    parser.add_argument("--only", action="append", metavar="NAME", help="clients whose names begin so; can be given again")
    parser.add_argument("--direct", action="store_true", help="without the gateway, with a large window")
    parser.add_argument("--untold", action="store_true", help="the gateway is not told the windows: it has to learn them from refusals")
    parser.add_argument("--work", type=pathlib.Path, default=ROOT / "target" / "clients", help="for packages, homes and logs")
    parser.add_argument("--steps", type=int, default=14)
    parser.add_argument("--size", type=int, default=12_000, help="characters that each step's command prints")
    parser.add_argument("--window", type=int, help="of the scripted model, for all clients")
    parser.add_argument("--limit", type=int, default=600, help="seconds for one client")
    args = parser.parse_args()
    args.work = args.work.resolve()
    args.work.mkdir(parents=True, exist_ok=True)
    built = [ROOT / "target" / kind / "longhaul" for kind in ("release", "debug")]
    args.longhaul = (args.longhaul or next(filter(pathlib.Path.exists, built), built[0])).resolve()
    return args


def main():
    args = arguments()
    there, missing = wanted(args)
    if not seal.seal():
        print("the network could not be closed: clients may look for their makers' servers", file=sys.stderr)
    server = model.Model().start()
    between = None
    try:
        if not args.direct:
            windows = {} if args.untold else {client.model: args.window or client.window for client in clients.CLIENTS}
            between = gateway.Gateway(args.longhaul, server.url, windows, args.work / "gateway")
        outcomes = []
        for client in there:
            outcomes.append(drive(client, server, between, args))
            print(f"{client.name}: {'; '.join(judge(outcomes[-1], args)) or 'as it should be'}", file=sys.stderr)
    except gateway.Trouble as trouble:
        print(trouble, file=sys.stderr)
        return 3
    finally:
        if between:
            between.stop()
        server.shutdown()
    if outcomes:
        print(table([COLUMNS, *(outcome.row() for outcome in outcomes)]))
    print("\n".join(missing), end="\n" if missing else "")
    return 1 if any(judge(outcome, args) for outcome in outcomes) or not outcomes else 0


if __name__ == "__main__":
    sys.exit(main())
