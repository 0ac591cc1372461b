#!/usr/bin/env python3
"""Fits the weights of a checkpoint, and shows what each of them brings.

    cargo build --release -p longhaul-engine --example compact_file
    fit.py --measure "$LONGHAUL_SHARED/measure" --bodies "$LONGHAUL_SHARED/corpus" --exam "$LONGHAUL_SHARED/exam" \\
        [--held-out KEYS] [--folds 4] [--out weights.toml]

Each weight of `weights.toml` is changed alone: to 0, to half and to double. Every variant compacts every body of the exam at three
sizes. A body's score is the share of facts known plus a quarter of the share of exact values that the agent used later, less 0.03 for
each lie and less what noise exceeds 0.08, as a mean over the sizes.

- *Ablation*: what the score loses if a weight is 0. A weight that brings nothing should go.
- *Cross-validation*: the sessions are divided into folds. For each fold, the changes are chosen that help the other sessions, and the
  fold's own sessions are scored with them. A fit is worth taking only if this figure rises.
- *Held out*: the keys of another folder, which no choice ever sees, scored with the old and with the fitted weights.

With `--out`, the weights fitted to all sessions are written, comments and all.
"""
import argparse
import concurrent.futures
import glob
import json
import os
import re
import statistics
import subprocess
import sys
import tempfile
import tomllib

SIZES = ("policy", "0.25", "0.1")
FACTORS = (0.0, 0.5, 2.0)
# A change is taken if it helps by so much on average, and helps at least twice as many sessions as it harms.
LEAST_GAIN = 0.002
LATER_VALUES_SHARE = 0.25
LIE_PRICE = 0.03
MOST_NOISE = 0.08
WEIGHTS = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../crates/longhaul-engine/src/checkpoint/weights.toml")


class Session:
    """One key of the exam with its body, cut where the key says."""

    def __init__(self, path, bodies, tool, measure, future):
        self.measure, self.tool = measure, tool
        self.name = os.path.basename(path)[:-5]
        key = json.load(open(path))
        self.facts, self.lies = key["facts"], key.get("lies", [])
        body = json.load(open(os.path.join(bodies, key["file"])))
        everything = measure.items(body)
        self.messages = everything[: key["cut"]]
        self.later = future.needed(everything, key["cut"])
        self.request = json.dumps(measure.with_items(body, self.messages), ensure_ascii=False).encode()
        counted = subprocess.run([tool, "tokens", "--json", "-"], input=self.request, capture_output=True, check=True)
        self.tokens = json.loads(counted.stdout)["total"]

    def score(self, weights):
        return statistics.mean(self.score_at(size, weights) for size in SIZES)

    def score_at(self, size, weights):
        window = ["--context-length", str(self.tokens)]
        if size != "policy":
            window = ["--context-length", str(2 * self.tokens), "--to-tokens", str(int(self.tokens * float(size)))]
        run = subprocess.run([self.tool, "compress", "-", *window, "--weights", weights], input=self.request, capture_output=True)
        if run.returncode or not run.stdout:
            return 0.0
        after = self.measure.items(json.loads(run.stdout))
        text = "\n".join(self.measure.text_of(message) for message in after)
        own = self.measure.ours(self.messages, after)
        told = sum(any(self.measure.found(lie, part) for part in own) for lie in self.lies)
        later = statistics.mean([value in text for value in self.later]) if self.later else 0.0
        noise = max(0.0, self.measure.noise(own, self.messages, self.facts) - MOST_NOISE)
        return self.measure.share(self.facts, text) + LATER_VALUES_SHARE * later - LIE_PRICE * told - noise


class Table:
    """The weights in the order of the file, each under the name `table.key` or `table.key[index]`."""

    def __init__(self, path):
        self.text = open(path).read()
        self.values = {}
        for table, rows in tomllib.loads(self.text).items():
            for key, value in rows.items():
                if isinstance(value, list):
                    self.values |= {f"{table}.{key}[{index}]": item for index, item in enumerate(value)}
                else:
                    self.values[f"{table}.{key}"] = value

    def with_values(self, values):
        """The text of the file with other values; comments and order stay."""
        lines, table = [], ""
        for line in self.text.splitlines():
            if match := re.fullmatch(r"\[(\w+)\]", line):
                table = match[1]
            elif match := re.match(r"(\w+) = (.*)$", line):
                name = f"{table}.{match[1]}"
                if match[2].startswith("["):
                    count = sum(other.startswith(name + "[") for other in values)
                    line = f"{match[1]} = [{', '.join(number(values[f'{name}[{index}]']) for index in range(count))}]"
                else:
                    line = f"{match[1]} = {number(values[name])}"
            lines.append(line)
        return "\n".join(lines) + "\n"


def number(value):
    short = f"{value:.3f}".rstrip("0")
    return short + "0" if short.endswith(".") else short


def choose(variants, base, sessions):
    """The best change of each weight for these sessions, if it helps."""
    chosen = {}
    for name, by_factor in variants.items():
        def gains(scores):
            return [scores[session] - base[session] for session in sessions]

        factor, scores = max(by_factor.items(), key=lambda item: statistics.mean(gains(item[1])))
        gained = gains(scores)
        helped, harmed = sum(gain > 1e-9 for gain in gained), sum(gain < -1e-9 for gain in gained)
        if factor > 0 and statistics.mean(gained) >= LEAST_GAIN and helped >= 2 * harmed:
            chosen[name] = factor
    return chosen


def main():
    ap = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ap.add_argument("--tool", default="target/release/examples/compact_file")
    for name in ("measure", "bodies", "exam"):
        ap.add_argument("--" + name, required=True)
    ap.add_argument("--held-out")
    ap.add_argument("--folds", type=int, default=4)
    ap.add_argument("--jobs", type=int, default=2)
    ap.add_argument("--weights", default=WEIGHTS)
    ap.add_argument("--out")
    ap.add_argument("--only", default="", help="weights whose name begins so")
    a = ap.parse_args()
    sys.path.insert(0, a.measure)
    import exam
    import future_refs

    def load(folder):
        return [Session(path, a.bodies, a.tool, exam, future_refs) for path in sorted(glob.glob(os.path.join(folder, "*.json")))]

    sessions = load(a.exam)
    table = Table(a.weights)
    pool = concurrent.futures.ThreadPoolExecutor(a.jobs)

    def evaluate(changes, of):
        values = {name: value * changes.get(name, 1.0) for name, value in table.values.items()}
        with tempfile.NamedTemporaryFile("w", suffix=".toml") as file:
            file.write(table.with_values(values))
            file.flush()
            scores = pool.map(lambda session: session.score(file.name), of)
            return {session.name: score for session, score in zip(of, scores)}

    base = evaluate({}, sessions)
    print(f"{len(sessions)} sessions, score {statistics.mean(base.values()):.4f}")
    variants = {}
    for name in (name for name in table.values if name.startswith(a.only)):
        variants[name] = {factor: evaluate({name: factor}, sessions) for factor in FACTORS}
        change = {factor: statistics.mean(scores.values()) - statistics.mean(base.values()) for factor, scores in variants[name].items()}
        print(f"{name:34} brings {-change[0.0]:+.4f}; half {change[0.5]:+.4f}, double {change[2.0]:+.4f}", flush=True)
    held = {}
    for fold in range(a.folds):
        own = [session for at, session in enumerate(sessions) if at % a.folds == fold]
        others = [session.name for session in sessions if session not in own]
        held |= evaluate(choose(variants, base, others), own)
    print(f"cross-validated: {statistics.mean(base.values()):.4f} before, {statistics.mean(held.values()):.4f} with weights fitted to the other sessions")
    fitted = choose(variants, base, [session.name for session in sessions])
    after = evaluate(fitted, sessions)
    print(f"fitted to all: {statistics.mean(after.values()):.4f} with {', '.join(f'{name} × {factor}' for name, factor in fitted.items()) or 'no change'}")
    if a.held_out:
        unseen = load(a.held_out)
        scores = [statistics.mean(evaluate(changes, unseen).values()) for changes in ({}, fitted)]
        print(f"held out, {len(unseen)} sessions: {scores[0]:.4f} before, {scores[1]:.4f} with the fitted weights")
    if a.out:
        with open(a.out, "w") as file:
            file.write(table.with_values({name: value * fitted.get(name, 1.0) for name, value in table.values.items()}))


if __name__ == "__main__":
    main()
