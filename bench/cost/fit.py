#!/usr/bin/env python3
"""What compactions make an agent fetch again, and whether the scheduler that counts on it is as cheap as the best threshold.

    fit.py --longhaul target/release/longhaul FOLDER... [--seeds 1,2,3] [--thresholds 0.3,0.5,0.8]

Every body and agent's session in the folders with at least 30 requests and 30,000 tokens is replayed by `longhaul cost`, in a
window of half its largest request and in one of a quarter. One half of the sessions, by a hash of their names, gives the two
constants of crates/longhaul-engine/src/schedule.rs:

    FORGOTTEN   the steps that are fetched again after a compaction, up to the next, for each √m, where m is the number of tokens that
                were removed in units of what a turn of the session adds (least squares)
    FETCHED     the tokens of such a step in the same unit (mean)

On the other half the scheduler's mean cost is held against every single threshold. The constants of the other half are printed too;
they were not used. With --thresholds the scheduler is run with these thresholds configured as well.
"""
import argparse
import glob
import hashlib
import json
import os
import statistics
import subprocess

REQUESTS, TOKENS = 30, 30_000
# The same session as pi-mono_before-compaction of the corpus.
TWICE = {"pi_before-compaction.jsonl.gz"}
HALVES = ("fitted", "held out")


def cost(args, path, window, seed=1, threshold=None):
    """The answer of `longhaul cost`, or nothing where it has none."""
    model = "gpt-5" if "responses" in path or "codex" in path else "claude-sonnet-4-5"
    command = [args.longhaul, "cost", path, "--json", "--model", model, "--context-length", str(window), "--seed", str(seed)]
    environment = dict(os.environ)
    if threshold:
        environment["LONGHAUL_COMPRESSION__THRESHOLD"] = threshold
    run = subprocess.run(command, capture_output=True, text=True, env=environment)
    return json.loads(run.stdout) if run.returncode == 0 else None


def sessions(args):
    """The long sessions: path, requests, tokens of the largest request."""
    paths = [path for folder in args.folders for path in glob.glob(os.path.join(folder, "**"), recursive=True)]
    for path in sorted(filter(os.path.isfile, paths)):
        answer = None if os.path.basename(path) in TWICE else cost(args, path, 10_000_000)
        if answer is None:
            continue
        largest = next(policy["largest"] for policy in answer["policies"] if policy["name"] == "marks")
        if answer["requests"] >= REQUESTS and largest >= TOKENS:
            yield path, answer["requests"], largest


def half_of(path):
    return hashlib.sha256(os.path.basename(path).encode()).digest()[0] % 2


def mean(replays, name, value):
    return statistics.mean(value(replay["policies"][name], replay["policies"]["marks"]) for replay in replays)


def usd(policy, _):
    return policy["usd"]


def constants(replays):
    """FORGOTTEN and FETCHED by all compactions at a fixed threshold."""
    done = [
        (compaction, replay["growth"])
        for replay in replays
        for name, policy in replay["policies"].items()
        if name.startswith("compressor@")
        for compaction in policy["compacted"]
    ]
    removed = [(one["before"] - one["after"]) / growth for one, growth in done]
    steps = [one["forgotten"] for one, _ in done]
    forgotten = sum(f * m**0.5 for f, m in zip(steps, removed)) / sum(removed)
    fetched = sum(one["fetched"] / growth for one, growth in done) / sum(steps)
    return forgotten, fetched, len(done)


def show(replays, title):
    print(f"\n{title}: {len(replays)} replays")
    print(f"{'policy':16} {'mean $':>8} {'of marks':>9} {'compactions':>12} {'forgotten':>10}")
    for name in replays[0]["policies"]:
        share = mean(replays, name, lambda policy, marks: policy["usd"] / marks["usd"])
        times = mean(replays, name, lambda policy, _: policy["compactions"])
        steps = mean(replays, name, lambda policy, _: policy.get("forgotten", 0))
        print(f"{name:16} {mean(replays, name, usd):8.3f} {100 * share:8.1f}% {times:12.1f} {steps:10.1f}")
    singles = [name for name in replays[0]["policies"] if name.startswith("compressor@")]
    best = min(singles, key=lambda name: mean(replays, name, usd))
    ratio = mean(replays, "scheduler", usd) / mean(replays, best, usd)
    print(f"scheduler / {best}, the best single threshold: {ratio:.3f}")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folders", nargs="+")
    parser.add_argument("--longhaul", default="target/release/longhaul")
    parser.add_argument("--seeds", default="1")
    parser.add_argument("--thresholds", default="")
    args = parser.parse_args()
    long = list(sessions(args))
    runs = [(path, requests, size, size // part, int(seed))
            for path, requests, size in long for part in (2, 4) for seed in args.seeds.split(",")]

    def replays(threshold=None):
        for path, requests, size, window, seed in runs:
            answer = cost(args, path, window, seed, threshold)
            policies = {policy["name"]: policy for policy in answer["policies"]}
            yield {"half": half_of(path), "growth": size / requests, "policies": policies}

    done = list(replays())
    halves = [[replay for replay in done if replay["half"] == half] for half in (0, 1)]
    print(f"{len(long)} sessions, {len(runs)} replays")
    if "forgotten" in done[0]["policies"]["marks"]:
        for title, half in zip(HALVES, halves):
            forgotten, fetched, count = constants(half)
            print(f"{title}: FORGOTTEN {forgotten:.2f}, FETCHED {fetched:.2f}, by {count} compactions")
    for title, part in zip((*HALVES, "all"), (*halves, done)):
        show(part, title)
    for threshold in filter(None, args.thresholds.split(",")):
        at = list(replays(threshold))
        share = mean(at, "scheduler", lambda policy, marks: policy["usd"] / marks["usd"])
        print(f"scheduler with threshold {threshold}: mean ${mean(at, 'scheduler', usd):.3f}, {100 * share:.1f}% of marks alone")


if __name__ == "__main__":
    main()
