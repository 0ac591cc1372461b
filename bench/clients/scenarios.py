#!/usr/bin/env python3
"""Real agents in situations that a plain tool loop has not: `longhaul run -- AGENT` in a scripted session.

    scenarios.py [--longhaul PROGRAM] [--only AGENT]... [--scenario NAME]... [--untold] [--work target/clients]

words: a person types while a tool runs. subagent: a step is given to a subagent, whose report comes later. resume: the agent ends in
the middle, and a new one goes on with the session. long: past the model's own window, with and without Longhaul, and what both cost.
commands: a person compacts, undoes and looks by hand.

Exits with 1 if an agent did not end with the code word, the model refused a request (too long ones apart with --untold), what a person
or a subagent said was missing from a later prompt, the agent compacted by itself, or a session cost over a tenth more than without.
"""
import argparse
import dataclasses
import json
import os
import pathlib
import re
import secrets
import shutil
import subprocess
import sys
import time

import clients
import install
import model
import play
import programs
import run
import seal
import script
import terminal

WORDS = "Please never touch the file velvet.cfg, it belongs to Mara; the branch is called tulip-7."
FURTHER = "Go on with the next parts, and mind that the release is called heron-3."
LINE = re.compile(r"longhaul: (\d+) requests?, (\d+) compactions?.*")
# What tokens cost, in prices of an uncached one: read from the cache, put into it, written by the model.
PRICES = {"claude": (0.1, 1.25, 5.0), "gpt": (0.1, 1.0, 8.0)}
DEARER = 1.10
COLUMNS = ["scenario", "agent", "version", "steps", "requests", "largest", "refused", "orphans", "compacted", "own", "words kept", "cost",
           "cost without", "seconds", "ended"]


@dataclasses.dataclass
class Case:
    """One agent in one scenario, and where it happens."""

    scenario: str
    program: programs.Program
    client: clients.Client
    own: pathlib.Path
    model: model.Model
    args: argparse.Namespace
    direct: bool = False

    @property
    def home(self):
        return self.own / "home"

    @property
    def folder(self):
        return self.own / "repository"

    def begin(self, steps, size, window, **more):
        shutil.rmtree(self.own, ignore_errors=True)
        for new in (self.home, self.folder, self.own / "requests"):
            new.mkdir(parents=True)
        subprocess.run(["git", "init", "-q", str(self.folder)], check=True)
        play.lay_out(self.folder, steps, size)
        self.program.prepare(self.home, self.folder)
        self.word = f"kestrel-{secrets.token_hex(3)}"
        self.steps, self.window = steps, window
        self.play = script.Script(self.folder, window, steps, self.word, **more)
        self.model.begin(self.play, self.own / "requests")
        told = {} if self.args.untold else {"models": {self.program.model: {"context_length": window}}}
        (self.own / "longhaul.yaml").write_text(json.dumps(told))
        self.began = time.monotonic()

    def call(self, made):
        """The call with its variables: behind a gateway, or without one."""
        program, *rest = made(str(self.args.work / "tools" / "node" / "node_modules" / ".bin" / self.program.client))
        variables = {"PATH": os.environ["PATH"], "LANG": "C.UTF-8", "HOME": str(self.home), "CODEX_HOME": str(self.home), **clients.KEYS,
                     **self.program.variables}
        if self.direct:
            more, before = self.program.direct(self.model.url, self.home)
            return [program, *before, *rest], variables | more
        gate = [self.args.longhaul, "run", "--upstream", self.model.url, "--store", self.own / "store.db", "--config",
                self.own / "longhaul.yaml", "--log", self.own / "gateway.log", "--"]
        return [*map(str, gate), program, *rest], variables

    def ask(self, made):
        """One call to its end; what it wrote."""
        command, variables = self.call(made)
        with open(self.own / "client.log", "ab") as out:
            process = subprocess.Popen(command, cwd=self.folder, env=variables, stdin=subprocess.DEVNULL, stdout=out,
                                       stderr=subprocess.STDOUT, start_new_session=True)
            try:
                self.code = process.wait(timeout=self.args.limit)
            except subprocess.TimeoutExpired:
                self.code = None
            finally:
                run.end_group(process.pid)
                process.wait()
        return (self.own / "client.log").read_text(errors="replace")

    def sit_down(self):
        """The agent in a terminal, ready to be typed on."""
        command, variables = self.call(self.program.terminal)
        screen = terminal.Terminal(command, self.folder, variables)
        screen.shows(self.program.ready, self.args.start)
        time.sleep(3)
        return screen

    def stand_up(self, screen):
        """Leaves the agent; everything that it showed."""
        shown = screen.history()
        for key in self.program.leave:
            screen.press(key)
            time.sleep(0.5)
        screen.wait(lambda: screen.ended() is not None, 20)
        shown += screen.history()
        self.code = 0
        screen.close()
        (self.own / "client.log").write_text(shown)
        return shown


def words(case):
    """A person says something while a tool runs."""
    case.begin(14, 12_000, case.program.window, slow=[3])
    screen = case.sit_down()
    try:
        screen.enter(clients.TASK)
        screen.wait(lambda: case.play.made >= 3, 60)
        time.sleep(1)
        screen.enter(WORDS)
        case.play.said.append(WORDS)
        screen.shows(case.word, case.args.limit)
    finally:
        said = case.stand_up(screen)
    return said


def subagent(case):
    case.begin(14, 12_000, case.program.window, delegate=[3])
    return case.ask(lambda program: case.program.ask(program, clients.TASK))


def resume(case):
    case.begin(16, 12_000, case.program.window)
    case.play.steps = 8
    case.ask(lambda program: case.program.ask(program, clients.TASK))
    case.play.steps = 16
    case.play.said.append(FURTHER)
    return case.ask(lambda program: case.program.again(program, FURTHER))


def long(case):
    case.begin(case.args.steps, 28_000, case.program.natural)
    return case.ask(lambda program: case.program.ask(program, clients.TASK))


def commands(case):
    case.begin(8, 8_000, case.program.natural)
    screen = case.sit_down()
    typed = ["longhaul context", *([case.program.menu] if case.program.menu else []), " /compress the parser", "longhaul compress", "longhaul undo"]
    case.answered = {}
    try:
        screen.enter(clients.TASK)
        screen.shows(case.word, case.args.limit)
        time.sleep(2)
        for line in typed:
            asked = len(case.play.requests)
            screen.enter(line)
            # Agents show a command of their menu as they send it.
            shown = [line.strip(), line.strip().replace("/longhaul:", "/")]
            answered = lambda: (text := screen.screen()).rfind("[longhaul]") > max(map(text.rfind, shown))
            case.answered[line] = screen.wait(answered, 20) and len(case.play.requests) == asked
            time.sleep(2)
    finally:
        said = case.stand_up(screen)
    return said


SCENARIOS = {"words": words, "subagent": subagent, "resume": resume, "long": long, "commands": commands}


def fits(name, program):
    """Scenarios that an agent cannot have."""
    if name == "subagent":
        return program.subagents
    return name != "long" or program.natural <= 300_000


@dataclasses.dataclass
class Outcome:
    case: Case
    said: str
    seconds: float
    without: float | None

    @property
    def main(self):
        return [request for request in self.case.play.requests if request.main]

    @property
    def cost(self):
        return cost(self.case)

    @property
    def compacted(self):
        return sum(int(compactions) for _, compactions in set(LINE.findall(self.said)))

    def wrong(self):
        """What does not hold of what must; a session without Longhaul must only come to its end."""
        case, made = self.case, self.case.play
        if case.direct:
            return [] if made.made >= case.steps else [f"made {made.made} of {case.steps} steps"]
        too_long = sum(request.refused == "too long" for request in made.requests)
        answered = getattr(case, "answered", {})
        found = {
            "did not end with the code word": case.word not in self.said or case.code not in (0, None),
            f"made {made.made} of {case.steps} steps": made.made < case.steps,
            "a request was invalid": any(request.orphans for request in made.requests),
            f"{too_long} requests were too long": too_long and not case.args.untold,
            "words were lost": any(not request.kept_words for request in self.main),
            "words never reached the model": bool(made.unheard()),
            f"the agent compacted by itself {made.summaries} times": made.summaries,
            f"cost {self.cost / self.without:.2f} of what it costs without" if self.without else "": self.without and self.cost > DEARER * self.without,
            f"not answered: {', '.join(line for line, was in answered.items() if not was)}": not all(answered.values()),
        }
        return [what for what, is_so in found.items() if is_so]

    def row(self):
        made, main = self.case.play, self.main
        kept = sum(request.kept_words for request in main)
        return [
            self.case.scenario, self.case.program.name, self.case.client.pin, made.made, len(made.requests),
            f"{max((request.tokens for request in main), default=0)}/{self.case.window}",
            sum(request.refused is not None for request in made.requests), sum(len(request.orphans) for request in made.requests),
            self.compacted, made.summaries, f"{kept} of {len(main)}", f"{self.cost / 1000:.0f}",
            f"{self.without / 1000:.0f}" if self.without else "", f"{self.seconds:.0f}", "NO" if self.wrong() else "yes"]


def cost(case):
    """What a session cost, in thousands of uncached tokens."""
    read, fresh, written = next(price for name, price in PRICES.items() if case.program.model.startswith(name))
    answered = [request for request in case.play.requests if request.refused is None]
    return sum(request.kept * read + (request.tokens - request.kept) * fresh + request.output * written for request in answered)


def drive(name, program, client, server, args):
    def one(direct):
        own = args.work / "scenarios" / f"{name}-{program.name.replace(', ', '-')}{'-direct' if direct else ''}"
        case = Case(name, program, client, own, server, args, direct)
        said = SCENARIOS[name](case)
        (own / "requests.jsonl").write_text("".join(json.dumps(dataclasses.asdict(request)) + "\n" for request in case.play.requests))
        return case, said, time.monotonic() - case.began
    without = None
    if name == "long" and not args.alone:
        case, said, seconds = one(True)
        direct = Outcome(case, said, seconds, None)
        print(f"{name}, {program.name}, without: {'; '.join(direct.wrong()) or 'as it should be'}", file=sys.stderr)
        without = None if direct.wrong() else direct.cost
        args.rows.append([*direct.row()[:1], f"{program.name}, without", *direct.row()[2:]])
    case, said, seconds = one(False)
    return Outcome(case, said, seconds, without)


def arguments():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--longhaul", type=pathlib.Path, help="the program; target/release/longhaul, else target/debug/longhaul")
    parser.add_argument("--only", action="append", metavar="AGENT", help="agents whose names begin so; can be given again")
    parser.add_argument("--scenario", action="append", choices=SCENARIOS, help="can be given again; all of them if not given")
    parser.add_argument("--untold", action="store_true", help="the gateway is not told the windows")
    parser.add_argument("--alone", action="store_true", help="no session without Longhaul for comparison")
    parser.add_argument("--work", type=pathlib.Path, default=run.ROOT / "target" / "clients", help="for packages, homes and logs")
    parser.add_argument("--steps", type=int, default=48, help="of the long session; each has 7,000 tokens")
    parser.add_argument("--limit", type=int, default=600, help="seconds for one call")
    parser.add_argument("--start", type=int, default=60, help="seconds until an agent can be typed on")
    args = parser.parse_args()
    args.work = args.work.resolve()
    built = [run.ROOT / "target" / kind / "longhaul" for kind in ("release", "debug")]
    args.longhaul = (args.longhaul or next(filter(pathlib.Path.exists, built), built[0])).resolve()
    args.rows = []
    return args


def main():
    args = arguments()
    rows = {client.name: client for client in clients.CLIENTS}
    wanted = [program for program in programs.PROGRAMS if not args.only or any(program.name.startswith(name) for name in args.only)]
    for program in wanted:
        install.install(rows[program.client], args.work / "tools", args.work / "install.log")
    if not seal.seal():
        print("the network could not be closed: agents may look for their makers' servers", file=sys.stderr)
    server = model.Model().start()
    failed = False
    for name in args.scenario or SCENARIOS:
        for program in wanted:
            if not fits(name, program):
                continue
            outcome = drive(name, program, rows[program.client], server, args)
            failed = failed or bool(outcome.wrong())
            print(f"{name}, {program.name}: {'; '.join(outcome.wrong()) or 'as it should be'}", file=sys.stderr)
            args.rows.append(outcome.row())
    server.shutdown()
    print(run.table([COLUMNS, *args.rows]))
    return 1 if failed or not args.rows else 0


if __name__ == "__main__":
    sys.exit(main())
