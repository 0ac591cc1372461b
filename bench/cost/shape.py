#!/usr/bin/env python3
"""What a session of 83 tool calls in 127 minutes costs, compressed, without a cache and with one.

    shape.py --longhaul target/release/longhaul FOLDER [--model claude-sonnet-4-5] [--context-length 100000]

Every session in FOLDER with at least 84 requests is cut after the 84th, which answers the 83rd call, and its pauses are all the
same, so that it takes 127 minutes. A published account of such a session names 3.72 USD compressed without a cache and 1.87 with
one; its transcript is not known, so the sizes printed here say how far these sessions are like it.
"""
import argparse
import glob
import json
import os
import statistics
import subprocess

CALLS, MINUTES = 83, 127
PAUSE = MINUTES * 60 / CALLS


def policies(args, path, caching):
    environment = {**os.environ, "LONGHAUL_PROMPT_CACHING__ENABLED": caching}
    command = [args.longhaul, "cost", path, "--json", "--requests", str(CALLS + 1), "--pause", f"{PAUSE:.3f}"]
    command += ["--model", args.model, "--context-length", str(args.context_length)]
    run = subprocess.run(command, capture_output=True, text=True, env=environment)
    if run.returncode:
        return None
    answer = json.loads(run.stdout)
    if answer["requests"] < CALLS + 1:
        return None
    return {policy["name"]: policy for policy in answer["policies"]}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder")
    parser.add_argument("--longhaul", default="target/release/longhaul")
    parser.add_argument("--model", default="claude-sonnet-4-5")
    parser.add_argument("--context-length", type=int, default=100_000)
    args = parser.parse_args()
    rows = []
    print(f"{'session':50} {'largest':>8} {'no cache':>9} {'cache':>7} {'scheduler':>10}")
    for path in sorted(glob.glob(os.path.join(args.folder, "*.json"))):
        with_cache = policies(args, path, "true")
        if with_cache is None or with_cache["marks"]["cached"] == 0:
            continue
        without = policies(args, path, "false")
        row = without["compressor@0.50"]["usd"], with_cache["compressor@0.50"]["usd"], with_cache["scheduler"]["usd"]
        rows.append(row)
        largest = with_cache["marks"]["largest"]
        print(f"{os.path.basename(path)[:50]:50} {largest:8,} {row[0]:9.2f} {row[1]:7.2f} {row[2]:10.2f}")
    if rows:
        means = [statistics.mean(column) for column in zip(*rows)]
        print(f"{'mean':50} {'':8} {means[0]:9.2f} {means[1]:7.2f} {means[2]:10.2f}")


if __name__ == "__main__":
    main()
