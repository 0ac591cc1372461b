"""Our compaction beside that of hermes-agent, on the same bodies, in turns so that a busy machine meets both alike.

    export LONGHAUL_SHARED=<folder>
    python3 -m venv VENV && VENV/bin/pip install hermes-agent
    cargo build --release && cargo build --release -p longhaul-engine --example compress_speed
    python3 bench/compress/compare.py --hermes VENV/bin/python [--rounds N]

Prints, by body: the medians of both and how many times faster we are, with nothing known and with everything known but the
newest turn; how time grows with the body; wall time and peak memory of a whole `longhaul compress` process.
"""

import argparse
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
WINDOWS = {"small": 128_000, "large": 1_000_000, "huge": 1_000_000}
# What is to be reached: how many times faster with nothing known, and with everything known but the newest turn.
GOALS = {"small": (3, None), "large": (5, 50)}


def main():
    options = argparse.ArgumentParser()
    options.add_argument("--hermes", required=True, help="a Python that has hermes-agent")
    options.add_argument("--rounds", type=int, default=7)
    options.add_argument("--engine", default="compressor", help="of the `longhaul compress` process")
    options = options.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        # In a process of its own: a child's peak memory begins at what its parent holds when it is started.
        subprocess.run([sys.executable, HERE / "bodies.py", folder], check=True, stdout=subprocess.DEVNULL)
        paths = {name: Path(folder) / f"{name}.chat.json" for name in WINDOWS}
        for name in GOALS:
            beside(name, paths[name], options)
        growth(paths)
        for name in WINDOWS:
            process(name, paths[name], options)


def beside(name, path, options):
    """Both on one body, a few runs of each in turn."""
    theirs, cold, known = [], [], []
    for _ in range(options.rounds):
        hermes = [options.hermes, HERE / "hermes.py", path, str(WINDOWS[name]), "--runs", "3"]
        theirs.append(answer(hermes)["wall_ms"][0])
        our = ours(path, WINDOWS[name], 3)
        cold.append(our["plan"][0])
        known.append(our["plan_known"][0])
    print(f"{name}: {our['tokens'][0]:,} tokens, {our['messages'][0]:,} messages, {our['bytes']:,} bytes")
    print(f"  hermes-agent        {spread(theirs)}")
    for label, times, goal in zip(("nothing known", "known but a turn"), (cold, known), GOALS[name]):
        times_faster = statistics.median(their / our for their, our in zip(theirs, times))
        wanted = f", to reach {goal}" if goal else ""
        print(f"  ours, {label:<17} {spread(times)}   {times_faster:.1f} times faster{wanted}")


def growth(paths):
    """Time for each million tokens, which is the same for all sizes where time is linear."""
    print("milliseconds a million tokens, least of five runs:")
    for name, path in paths.items():
        our = ours(path, WINDOWS[name], 5)
        million = our["tokens"][0] / 1e6
        parts = (f"{part} {our[part][1] / million:.1f}" for part in ("parse", "count", "plan", "plan_known"))
        print(f"  {our['tokens'][0]:>10,} tokens: {', '.join(parts)}")


def process(name, path, options):
    """Wall time and peak memory of a whole process."""
    longhaul = [RELEASE / "longhaul", "compress", "--quiet", "--engine", options.engine]
    longhaul += ["--context-length", str(WINDOWS[name]), "-o", path.with_suffix(".out"), path]
    walls, peaks = zip(*(spent(longhaul) for _ in range(options.rounds)))
    size = path.stat().st_size
    print(
        f"longhaul compress, {name}: {statistics.median(walls):.2f} s (least {min(walls):.2f}), "
        f"peak memory {max(peaks) / 1e6:.1f} MB, {max(peaks) / size:.2f} times the body of {size / 1e6:.1f} MB"
    )


def spent(command):
    """Seconds and peak bytes of a process."""
    start = time.perf_counter()
    child = os.posix_spawn(command[0], [str(part) for part in command], os.environ)
    _, status, usage = os.wait4(child, 0)
    if status:
        sys.exit(f"{' '.join(map(str, command))} failed")
    return time.perf_counter() - start, usage.ru_maxrss * (1 if sys.platform == "darwin" else 1024)


def ours(path, window, runs):
    return answer([RELEASE / "examples/compress_speed", path, str(window), str(runs)])


def answer(command):
    return json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout)


def spread(times):
    return f"{statistics.median(times):>8.1f} ms ({min(times):.1f} to {max(times):.1f})"


if __name__ == "__main__":
    main()
