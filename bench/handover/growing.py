#!/usr/bin/env python3
"""Does a handover that was handed over twice still know as much?

    growing.py --longhaul target/release/longhaul --measure "$LONGHAUL_SHARED/measure" --bodies "$LONGHAUL_SHARED/corpus" --exam "$LONGHAUL_SHARED/exam"
               [--rounds 6] [--match NAME] [--summaries FOLDER [--summary-round K]] [--show]

Each body of the exam is compacted at 40 % of its messages up to the cut, then again in equal steps up to the cut (at 70 % and at the
cut with the default of three rounds), each time on top of what came out before; beside it stands one compaction at the cut. Printed
are the facts known, the lies told, the checkpoints that are there, the tokens of the last one, and its lines that stand there twice,
both ways, under the default policy. With --summaries, NAME.txt of the folder is handed in at each round, or only at round K (from 1);
the audit removes what has not happened yet. --show prints the last checkpoint.
"""
import argparse
import glob
import json
import os
import re
import statistics
import subprocess
import sys

OPENING = "[Longhaul checkpoint"
MIN_LINE = 24  # shorter lines, such as headings of tables, may repeat


def main():
    ap = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ap.add_argument("--longhaul", default="target/release/longhaul")
    ap.add_argument("--measure", required=True)
    ap.add_argument("--bodies", required=True)
    ap.add_argument("--exam", required=True)
    ap.add_argument("--rounds", type=int, default=3)
    ap.add_argument("--match", default="")
    ap.add_argument("--summaries")
    ap.add_argument("--summary-round", type=int)
    ap.add_argument("--show", action="store_true")
    a = ap.parse_args()
    sys.path.insert(0, a.measure)
    import exam as measure

    def compact(body, window, summary=None):
        args = [a.longhaul, "compress", "-", "--force", "--quiet", "--context-length", str(window)]
        args += ["--summary", summary] if summary else []
        raw = json.dumps(body, ensure_ascii=False).encode()
        out = subprocess.run(args, input=raw, capture_output=True)
        return json.loads(out.stdout) if out.stdout else body

    def may_be_cut(message):
        return message.get("role") == "assistant" or message.get("type") in ("function_call", "reasoning")

    rows = []
    for path in sorted(glob.glob(os.path.join(a.exam, "*.json"))):
        if a.match not in path:
            continue
        exam = json.load(open(path))
        summary = os.path.join(a.summaries, os.path.basename(path)[:-5] + ".txt") if a.summaries else None
        body = json.load(open(os.path.join(a.bodies, exam["file"])))
        messages = measure.items(body)[: exam["cut"]]
        window = measure.count(a.longhaul, json.dumps(measure.with_items(body, messages), ensure_ascii=False).encode())
        grown, done = measure.with_items(body, []), 0
        for number in range(a.rounds):
            cut = round(len(messages) * (0.4 + 0.6 * number / (a.rounds - 1)))
            while cut < len(messages) and not may_be_cut(messages[cut]):
                cut += 1
            grown = measure.with_items(grown, measure.items(grown) + messages[done:cut])
            own = summary if a.summary_round in (None, number + 1) else None
            grown, done = compact(grown, window, own), cut
        row = []
        for out in (compact(measure.with_items(body, messages), window, summary), grown):
            after = measure.items(out)
            text = "\n".join(measure.text_of(m) for m in after)
            own = measure.ours(messages, after)
            lies = sum(any(measure.found(lie, t) for t in own) for lie in exam.get("lies", []))
            checkpoint = "\n".join(t[t.index(OPENING):] for t in own if OPENING in t)
            lines = [re.sub(r"^(\d+\. |- )", "", line.strip()) for line in checkpoint.splitlines()]
            twice = sorted({line for line in lines if len(line) >= MIN_LINE and lines.count(line) > 1})
            row.append((measure.share(exam["facts"], text), lies, sum(OPENING in t for t in own), len(checkpoint) // 4, twice))
        rows.append(row)
        one, many = row
        print(f"{os.path.basename(path)[:-5]:28} once {one[0]:.2f}, {one[1]} lies, about {one[3]} tokens; growing {many[0]:.2f}, {many[1]} lies, {many[2]} checkpoints, about {many[3]} tokens, {len(many[4])} lines twice")
        for line in many[4]:
            print("    twice:", line[:160])
        if a.show:
            print(checkpoint)
    for way, at in (("once", 0), ("growing", 1)):
        known = statistics.mean(row[at][0] for row in rows)
        print(f"{way}: known {known:.3f}, lies {sum(row[at][1] for row in rows)}, most checkpoints {max(row[at][2] for row in rows)}")


if __name__ == "__main__":
    main()
