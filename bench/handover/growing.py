#!/usr/bin/env python3
"""Does a handover that was handed over twice still know as much?

    growing.py --longhaul target/release/longhaul --measure "$LONGHAUL_SHARED/measure" --bodies "$LONGHAUL_SHARED/corpus" --exam "$LONGHAUL_SHARED/exam"

Each body of the exam is compacted at 40 % and at 70 % of its messages up to the cut, and once more at the cut, each time on top of
what came out before; beside it stands one compaction at the cut. Printed are the facts known, the lies told and the checkpoints
that are there, both ways, under the default policy.
"""
import argparse
import glob
import json
import os
import statistics
import subprocess
import sys

OPENING = "[Longhaul checkpoint"


def main():
    ap = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ap.add_argument("--longhaul", default="target/release/longhaul")
    ap.add_argument("--measure", required=True)
    ap.add_argument("--bodies", required=True)
    ap.add_argument("--exam", required=True)
    a = ap.parse_args()
    sys.path.insert(0, a.measure)
    import exam as measure

    def compact(body, window):
        args = [a.longhaul, "compress", "-", "--force", "--quiet", "--context-length", str(window)]
        raw = json.dumps(body, ensure_ascii=False).encode()
        out = subprocess.run(args, input=raw, capture_output=True)
        return json.loads(out.stdout) if out.stdout else body

    def may_be_cut(message):
        return message.get("role") == "assistant" or message.get("type") in ("function_call", "reasoning")

    rows = []
    for path in sorted(glob.glob(os.path.join(a.exam, "*.json"))):
        exam = json.load(open(path))
        body = json.load(open(os.path.join(a.bodies, exam["file"])))
        messages = measure.items(body)[: exam["cut"]]
        window = measure.count(a.longhaul, json.dumps(measure.with_items(body, messages), ensure_ascii=False).encode())
        grown, done = measure.with_items(body, []), 0
        for share in (0.4, 0.7, 1.0):
            cut = int(len(messages) * share)
            while cut < len(messages) and not may_be_cut(messages[cut]):
                cut += 1
            grown = measure.with_items(grown, measure.items(grown) + messages[done:cut])
            grown, done = compact(grown, window), cut
        row = []
        for out in (compact(measure.with_items(body, messages), window), grown):
            after = measure.items(out)
            text = "\n".join(measure.text_of(m) for m in after)
            own = measure.ours(messages, after)
            lies = sum(any(measure.found(lie, t) for t in own) for lie in exam.get("lies", []))
            row.append((measure.share(exam["facts"], text), lies, sum(t.startswith(OPENING) for t in own)))
        rows.append(row)
        print(f"{os.path.basename(path)[:-5]:28} once {row[0][0]:.2f}, {row[0][1]} lies; growing {row[1][0]:.2f}, {row[1][1]} lies, {row[1][2]} checkpoints")
    for way, at in (("once", 0), ("growing", 1)):
        known = statistics.mean(row[at][0] for row in rows)
        print(f"{way}: known {known:.3f}, lies {sum(row[at][1] for row in rows)}, most checkpoints {max(row[at][2] for row in rows)}")


if __name__ == "__main__":
    main()
