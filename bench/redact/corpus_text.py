#!/usr/bin/env python3
"""Writes one large file of ordinary text: every string of the corpus bodies, and the tool outputs.

    LONGHAUL_SHARED=… python3 bench/redact/corpus_text.py OUT [MB]
"""
import json, os, pathlib, sys


def strings(value, key=""):
    if isinstance(value, str):
        if not (key == "data" or value.startswith("data:")):
            yield value
    elif isinstance(value, dict):
        for name, inner in value.items():
            yield from strings(inner, name)
    elif isinstance(value, list):
        for inner in value:
            yield from strings(inner, key)


def main():
    shared = pathlib.Path(os.environ["LONGHAUL_SHARED"])
    limit = int(sys.argv[2]) * 1_000_000 if len(sys.argv) > 2 else 1 << 60
    parts = []
    for path in sorted((shared / "corpus").glob("*.json")):
        parts += strings(json.loads(path.read_text()))
    for path in sorted((shared / "tool-outputs").iterdir()):
        parts.append(path.read_text(errors="replace"))
    text = "\n".join(parts).encode(errors="replace")
    pathlib.Path(sys.argv[1]).write_bytes(text[:limit].decode(errors="ignore").encode())


if __name__ == "__main__":
    main()
