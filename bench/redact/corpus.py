#!/usr/bin/env python3
"""Every hit in the corpus, the tool outputs and the session files, by kind: how often, and with `--show` each one in its surroundings.

    LONGHAUL_SHARED=… python3 bench/redact/corpus.py [--show]
"""
import collections, gzip, json, os, pathlib, subprocess, sys

from corpus_text import strings

shared = pathlib.Path(os.environ["LONGHAUL_SHARED"])
texts = []
for path in sorted((shared / "corpus").glob("*.json")):
    texts += [(path.name, text) for text in strings(json.loads(path.read_text()))]
for path in sorted((shared / "tool-outputs").iterdir()):
    texts.append((path.name, path.read_text(errors="replace")))
for path in sorted((shared / "sessions").rglob("*.json*")):
    content = gzip.open(path, "rt", errors="replace").read() if path.suffix == ".gz" else path.read_text(errors="replace")
    for document in content.splitlines() if ".jsonl" in path.name else [content]:
        try:
            texts += [(path.name, text) for text in strings(json.loads(document))]
        except ValueError:
            texts.append((path.name, document))
command = ["cargo", "run", "-q", *os.environ.get("PROFILE_ARGS", "--release").split(), "-p", "longhaul-engine", "--example", "redact_rows"]
given = "".join(json.dumps({"text": text.encode(errors="replace").decode()}) + "\n" for _, text in texts)
answer = subprocess.run(command, input=given, capture_output=True, text=True, check=True).stdout
kinds, shown = collections.Counter(), collections.Counter()
print(f"{len(texts):,} texts, {sum(len(text) for _, text in texts) / 1e6:.1f} million characters")
for (name, text), line in zip(texts, answer.splitlines()):
    data = text.encode(errors="replace")
    for found in json.loads(line)["found"]:
        kinds[found["kind"]] += 1
        around = (data[max(0, found["start"] - 50) : found["start"]] + b"<<" + data[found["start"] : found["end"]][:80] + b">>"
                  + data[found["end"] : found["end"] + 20])
        shown[found["kind"], around.decode(errors="replace").replace("\n", "\\n")] += 1
for kind, count in sorted(kinds.items()):
    print(f"{kind:<24}{count:>6} hits, {sum(k == kind for k, _ in shown):>5} different")
if "--show" in sys.argv:
    for (kind, around), count in sorted(shown.items()):
        print(f"{kind} ×{count}: {around}")
