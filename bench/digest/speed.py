#!/usr/bin/env python3
"""How fast digests are, per kind, against `grep -c` on the same file in the same run.

    python3 bench/digest/speed.py --longhaul target/release/longhaul --outputs OUTPUTS_FOLDER [--megabytes 50]

Each file of the folder, repeated line by line up to the size, is one input; so is a log made here. Best of three, wall clock,
start-up and reading included for both. JSON is made a list of the documents, so that it stays JSON. Peak memory is of the digest.
"""
import argparse, glob, os, subprocess, tempfile, time


def best(command):
    times = []
    for _ in range(3):
        start = time.perf_counter()
        # A pipe, because grep stops at the first match when its output goes nowhere.
        subprocess.run(command, stdout=subprocess.PIPE, check=False)
        times.append(time.perf_counter() - start)
    return min(times)


def grown(path, size):
    text = open(path, "rb").read()
    if path.endswith(".json"):
        records = [b'{"document":%d,"text":"%s"}' % (i, b"lorem ipsum " * 9) for i in range(size // 130)]
        return b"[" + b",\n".join(records) + b"]"
    return text * max(1, size // len(text))


def main():
    ap = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ap.add_argument("--longhaul", default="target/release/longhaul")
    ap.add_argument("--outputs", required=True)
    ap.add_argument("--megabytes", type=int, default=50)
    a = ap.parse_args()
    size, kinds = a.megabytes * 1_000_000, {}
    for path in sorted(glob.glob(os.path.join(a.outputs, "*"))):
        if not path.endswith("MANIFEST.json"):
            kinds.setdefault(os.path.basename(path).split("__")[0], path)
    rows, folder = [], tempfile.mkdtemp()
    log = b"".join(b"2026-03-01T10:%02d:%02dZ %s worker %d served request %d in %d ms\n" % (i // 60 % 60, i % 60, b"ERROR" if i % 97 == 0 else b"INFO", i % 16, i, i % 31) for i in range(size // 68))
    for kind, data in [("log (made)", log)] + [(kind, grown(path, size)) for kind, path in kinds.items()]:
        name = os.path.join(folder, "input")
        open(name, "wb").write(data)
        grep, ours = best(["grep", "-a", "-c", "error", name]), best([a.longhaul, "digest", name])
        timed = subprocess.run(["/usr/bin/env", "python3", "-c", f"import subprocess,resource;subprocess.run([{a.longhaul!r},'digest',{name!r}],stdout=-3);print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss)"], capture_output=True, text=True)
        peak = int(timed.stdout or 0) / 1024
        rows.append((len(data), ours, grep))
        print(f"{kind:16} {len(data) / 1e6:6.1f} MB  digest {len(data) / ours / 1e6:6.0f} MB/s  grep -c {len(data) / grep / 1e6:7.0f} MB/s  ratio {grep / ours:.3f}  peak {peak:6.1f} MB")
        os.remove(name)
    size, ours, grep = (sum(row[i] for row in rows) for i in range(3))
    print(f"{'ALL':16} {size / 1e6:6.1f} MB  digest {size / ours / 1e6:6.0f} MB/s  grep -c {size / grep / 1e6:7.0f} MB/s  ratio {grep / ours:.3f}")


if __name__ == "__main__":
    main()
