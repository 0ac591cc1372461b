#!/usr/bin/env python3
"""Recall and false alarms on the labelled secrets: all rows, the rows that are not contested, and these in two halves.

    LONGHAUL_SHARED=… python3 bench/redact/labelled.py [--missed]

A positive is found if no run of more than 8 characters of its value survives; a row without a value is found if anything
in it is. A negative is a false alarm if anything in it is found. The halves are told by a hash of the text.
"""
import csv, gzip, hashlib, json, os, pathlib, subprocess, sys

HERE = pathlib.Path(__file__).parent
SHARED = pathlib.Path(os.environ["LONGHAUL_SHARED"])
LONGEST = 8


def survives(value, text, found):
    """The longest run of the value's own bytes that no finding covers, over every place where the value stands."""
    data, value, longest = text.encode(), value.strip().encode(), 0
    start = data.find(value)
    while start >= 0:
        run = 0
        for at in range(start, start + len(value)):
            run = 0 if any(f["start"] <= at < f["end"] for f in found) else run + 1
            longest = max(longest, run)
        start = data.find(value, start + 1)
    return longest > LONGEST or longest == len(value)


def is_found(row, result):
    value = (row["secret"] or "").strip()
    return bool(result["found"]) and not (value and survives(value, row["text"], result["found"]))


rows = [json.loads(line) for line in gzip.open(SHARED / "secrets/labelled.jsonl.gz", "rt")]
contested = {int(row["row"]) for row in csv.DictReader(open(HERE / "contested.csv"))}
command = ["cargo", "run", "-q", *os.environ.get("PROFILE_ARGS", "--release").split(), "-p", "longhaul-engine", "--example", "redact_rows"]
given = "".join(json.dumps({"text": row["text"]}) + "\n" for row in rows)
answer = subprocess.run(command, input=given, capture_output=True, text=True, check=True).stdout
results = [json.loads(line) for line in answer.splitlines()]

def is_even(row):
    return hashlib.sha256(row["text"].encode()).digest()[0] % 2 == 0


every = range(len(rows))
rest = [i for i in every if i not in contested]
halves = [i for i in rest if is_even(rows[i])], [i for i in rest if not is_even(rows[i])]
for name, chosen in (("all rows", every), ("even half", halves[0]), ("odd half", halves[1]), ("the rest", rest)):
    positives = [i for i in chosen if rows[i]["label"]]
    negatives = [i for i in chosen if not rows[i]["label"]]
    missed = [i for i in positives if not is_found(rows[i], results[i])]
    alarms = [i for i in negatives if results[i]["found"]]
    print(f"{name}: recall {1 - len(missed) / len(positives):.4f} ({len(positives) - len(missed)}/{len(positives)}), "
          f"false alarms {len(alarms) / len(negatives):.4f} ({len(alarms)}/{len(negatives)})")
assert len(contested) * 10 <= len(rows), "more than a tenth is contested"
print("contested:", sum(rows[i]["label"] for i in contested), "positives,", sum(not rows[i]["label"] for i in contested), "negatives")
print("missed:", *missed)
print("false alarms:", *alarms)
if "--missed" in sys.argv:
    for i in missed + alarms:
        print(i, "+" if rows[i]["label"] else "-", rows[i]["kind"], "|", rows[i]["text"][:160].replace("\n", "\\n"), "|",
              (rows[i]["secret"] or "")[:60], "|", results[i]["text"][:160].replace("\n", "\\n"))
