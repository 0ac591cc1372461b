#!/usr/bin/env python3
"""How small digests are and which facts they keep, for several budgets, and by tool beside the targets.

    python3 bench/digest/curve.py --longhaul target/release/longhaul --shared SHARED_FOLDER [--budgets 40 150 600]

Facts are those of `measure/facts.py` in the shared folder. The outputs are its `tool-outputs` and every fifth result over
2,000 characters in its `corpus`. Beside each row stands what keeping the first 20 and the last 10 lines would give.
"""
import argparse, glob, json, os, subprocess, sys

# What each tool must reach: share smaller, share of facts kept. Kinds of outputs stand for the tools that give them.
TARGETS = {
    "code execution": (0.960, 0.85, ("pytest", "cargo")),
    "files": (0.946, 0.92, ("git-diff", "json-api", "lint-json")),
    "shell": (0.952, 0.80, ("build", "ci", "vitest-npm", "app-log")),
    "search": (0.927, 0.88, ("search-results",)),
    "SQL": (0.948, 0.94, ("made tables",)),
}


def edges(text):
    lines = [line for line in text.split("\n") if line.strip()]
    return "\n".join(lines if len(lines) <= 30 else lines[:20] + lines[-10:])


def table(rows):
    head = " id   | customer | total  | state\n------+----------+--------+---------\n"
    return head + "".join(f" {i:4} | {('ada', 'bob', 'eve', 'kim')[i % 4]:8} | {i * 3.5:6} | {'late' if i % 97 == 5 else 'shipped'}\n" for i in range(rows)) + f"({rows} rows)\n"


def main():
    ap = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ap.add_argument("--longhaul", default="target/release/longhaul")
    ap.add_argument("--shared", required=True)
    ap.add_argument("--budgets", nargs="*", default=["40", "150", "600"])
    a = ap.parse_args()
    sys.path.insert(0, os.path.join(a.shared, "measure"))
    from facts import results, score

    files = [f for f in sorted(glob.glob(os.path.join(a.shared, "tool-outputs", "*"))) if not f.endswith("MANIFEST.json")]
    outputs = [(os.path.basename(f).split("__")[0], open(f, encoding="utf-8", errors="replace").read()) for f in files]
    outputs += [("made tables", table(rows)) for rows in (200, 800, 3000)]
    bodies = [r for f in sorted(glob.glob(os.path.join(a.shared, "corpus", "*.json"))) for r in results(json.load(open(f))) if len(r) > 2000][::5]

    def measured(texts, make):
        total = [0] * 6
        for text in texts:
            out = make(text)
            for i, value in enumerate((len(text), len(out), *score(text, out))):
                total[i] += value
        size, after, kept, facts, have, all_ = total
        return f"{1 - after / size:6.1%} smaller  facts {kept / facts:.3f}  inventory {have / max(1, all_):.3f}"

    def digest(*options):
        return lambda text: subprocess.run([a.longhaul, "digest", "-", *options], input=text.encode(), capture_output=True, check=True).stdout.decode()

    groups = [("tool outputs", [text for kind, text in outputs if kind != "made tables"]), ("results in bodies", bodies)]
    for name, texts in groups:
        print(f"{name} ({len(texts)})")
        for budget in a.budgets:
            print(f"  {budget:>8} tokens  {measured(texts, digest('--tokens', budget))}")
        print(f"  by default       {measured(texts, digest())}")
        print(f"  first and last   {measured(texts, edges)}")
    print("by tool, at the default budget, beside the targets")
    for tool, (smaller, facts, kinds) in TARGETS.items():
        texts = [text for kind, text in outputs if kind in kinds]
        print(f"  {tool:15} {measured(texts, digest())}   (to reach: {smaller:.1%}, {facts:.2f}; {', '.join(kinds)})")


if __name__ == "__main__":
    main()
