"""Our compaction beside that of hermes-agent, on the same bodies, one thread against one, in turns so that a busy machine meets both alike.

    export LONGHAUL_SHARED=<folder>
    python3 -m venv VENV && VENV/bin/pip install hermes-agent
    cargo build --release && cargo build --release -p longhaul-engine --example compress_speed
    python3 bench/compress/compare.py --hermes VENV/bin/python [--rounds N]

The bodies are all of the corpus that are as large as the least at which the other one compacts by itself, and two that
`bodies.py` puts together. Each is compacted for the window that it fills to the other one's threshold.

Prints, by body, the processor's time of both (medians) and how many times less ours is: with nothing known, with all but the
newest turn known as a growing session leaves it, and as a compaction just before leaves it; then the same by the clock. Behind
that: how time grows with the body; processor time, wall time and peak memory of a whole `longhaul compress` process, and of
a start.
"""

import argparse
import csv
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

HERE = Path(__file__).parent
RELEASE = HERE.parent.parent / "target/release"
# The other one takes no smaller window, and compacts at this share of it.
LEAST_WINDOW, THRESHOLD = 64_000, 0.85
BUILT = ("small", "large", "huge")
CASES = {"plan": "unknown", "plan_grown": "grown", "plan_known": "known"}


def main():
    options = argparse.ArgumentParser()
    options.add_argument("--hermes", required=True, help="a Python that has hermes-agent")
    options.add_argument("--rounds", type=int, default=5)
    options.add_argument("--only", default="", help="only bodies with this in their name")
    options = options.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        # In a process of its own: a child's peak memory begins at what its parent holds when it is started.
        subprocess.run([sys.executable, HERE / "bodies.py", folder], check=True, stdout=subprocess.DEVNULL)
        built = {name: Path(folder) / f"{name}.chat.json" for name in BUILT}
        bodies = corpus() | {name: built[name] for name in ("small", "large")}
        beside({name: path for name, path in bodies.items() if options.only in name}, options)
        if options.only:
            return
        growth(built)
        beginning = start()
        for name, path in built.items():
            process(name, path, beginning, options)


def corpus():
    """Every body that the other one would compact by itself, largest first."""
    folder = Path(os.environ["LONGHAUL_SHARED"]) / "corpus"
    rows = list(csv.DictReader(open(folder / "INDEX.csv", encoding="utf-8")))
    large = [row for row in rows if int(row["tokens_text"]) >= LEAST_WINDOW * THRESHOLD]
    large.sort(key=lambda row: -int(row["tokens_text"]))
    return {row["file"].split(".")[0]: folder / row["file"] for row in large}


def beside(bodies, options):
    """Both on each body, a few runs of each in turn."""
    print(f"{'body':<36} {'tokens':>9} {'hermes':>9}  {'ours, and times less of the processor':<54}  by the clock")
    faster = {case: [] for case in CASES}
    for name, path in bodies.items():
        theirs, ours_spent = [], {case: [] for case in CASES}
        window = max(LEAST_WINDOW, round(tokens(path) / THRESHOLD))
        for _ in range(options.rounds):
            hermes = answer([options.hermes, HERE / "hermes.py", path, str(window), "--runs", "3"])
            theirs.append((hermes["processor_ms"][0], hermes["wall_ms"][0]))
            our = ours(path, window, 3)
            for case, spent in ours_spent.items():
                spent.append((our[case][0], our[case][3]))
        columns, clock = [], []
        for case, label in CASES.items():
            ratio, by_clock = (
                statistics.median(their[which] / our[which] for their, our in zip(theirs, ours_spent[case])) for which in (0, 1)
            )
            faster[case].append(ratio)
            columns.append(f"{label} {statistics.median(spent[0] for spent in ours_spent[case]):.1f} ms {ratio:.1f}×")
            clock.append(f"{by_clock:.1f}×")
        their = statistics.median(spent[0] for spent in theirs)
        print(f"{name[:36]:<36} {our['tokens'][0]:>9,} {their:>6.0f} ms  {', '.join(columns):<54}  {', '.join(clock)}", flush=True)
    for case, label in CASES.items():
        print(f"{label}: least {min(faster[case]):.1f}×, median {statistics.median(faster[case]):.1f}×")


def tokens(path):
    return json.loads(subprocess.run([RELEASE / "longhaul", "tokens", "--json", path], check=True, stdout=subprocess.PIPE).stdout)["total"]


def growth(paths):
    """Time for each million tokens, which is the same for all sizes where time is linear."""
    print("milliseconds of the processor a million tokens, least of five runs:")
    for name, path in paths.items():
        our = ours(path, 1_000_000, 5)
        million = our["tokens"][0] / 1e6
        parts = (f"{part} {our[part][1] / million:.1f}" for part in ("parse", "count", *CASES))
        print(f"  {our['tokens'][0]:>10,} tokens: {', '.join(parts)}")


def start():
    """What a process costs before it does anything: the smallest example, counted and compacted. Gives its peak memory."""
    example = HERE.parent.parent / "examples/chat.json"
    runs = [spent([RELEASE / "longhaul", "tokens", example]) for _ in range(15)]
    processor, wall, peak = map(statistics.median, zip(*runs))
    print(f"a start: {processor * 1e3:.0f} ms of the processor, {wall * 1e3:.0f} ms, {peak / 1e6:.1f} MB")
    compress = [RELEASE / "longhaul", "compress", "--quiet", "--force", "-o", os.devnull, example]
    processor, wall, peak = map(statistics.median, zip(*(spent(compress) for _ in range(15))))
    print(f"a start that compacts: {processor * 1e3:.0f} ms of the processor, {wall * 1e3:.0f} ms, {peak / 1e6:.1f} MB")
    return peak


def process(name, path, beginning, options):
    """What a whole process costs."""
    longhaul = [RELEASE / "longhaul", "compress", "--quiet", "--context-length", "1000000", "-o", path.with_suffix(".out"), path]
    processor, walls, peaks = zip(*(spent(longhaul) for _ in range(options.rounds)))
    size = path.stat().st_size
    print(
        f"longhaul compress, {name}: {statistics.median(processor):.2f} s of the processor, {statistics.median(walls):.2f} s "
        f"(least {min(walls):.2f}), peak memory {max(peaks) / 1e6:.1f} MB, beyond the start "
        f"{(max(peaks) - beginning) / size:.2f} times the body of {size / 1e6:.1f} MB"
    )


def spent(command):
    """Seconds of the processor and of the clock, and peak bytes of a process."""
    begin = time.perf_counter()
    quiet = [(os.POSIX_SPAWN_OPEN, 1, os.devnull, os.O_WRONLY, 0)]
    child = os.posix_spawn(command[0], [str(part) for part in command], os.environ, file_actions=quiet)
    _, status, usage = os.wait4(child, 0)
    if status:
        sys.exit(f"{' '.join(map(str, command))} failed")
    peak = usage.ru_maxrss * (1 if sys.platform == "darwin" else 1024)
    return usage.ru_utime + usage.ru_stime, time.perf_counter() - begin, peak


def ours(path, window, runs):
    return answer([RELEASE / "examples/compress_speed", path, str(window), str(runs)])


def answer(command):
    return json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout)


if __name__ == "__main__":
    main()
