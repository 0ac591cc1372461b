"""Reads the texts of the request bodies and counts them with the engine."""

import csv
import json
import os
import subprocess
from pathlib import Path

SHARED = Path(os.environ["LONGHAUL_SHARED"])
ROOT = Path(__file__).resolve().parents[2]
COUNT = ROOT / "target/release/examples/token_classes"

# Strings that are no text: identifiers, types, roles, binary data and addresses.
NOT_TEXT = {
    "type", "id", "role", "tool_use_id", "call_id", "tool_call_id", "item_id", "index", "signature",
    "encrypted_content", "media_type", "cache_control", "data", "image_url", "url", "detail",
}


def strings(value):
    """Every string that counts as text, in the order of the document."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, list):
        for element in value:
            yield from strings(element)
    elif isinstance(value, dict):
        for key, element in value.items():
            if key not in NOT_TEXT:
                yield from strings(element)


def texts(body):
    """The strings of a body's system prompt and conversation; its tool definitions are left out."""
    if isinstance(body, list):
        return list(strings(body))
    parts = ("system", "instructions", "messages", "input")
    return [text for key, value in body.items() if key in parts for text in strings(value)]


def bodies():
    """(name, texts, text tokens by the index) of every body."""
    with open(SHARED / "corpus/INDEX.csv", newline="") as index:
        for row in csv.DictReader(index):
            body = json.loads((SHARED / "corpus" / row["file"]).read_text())
            yield row["file"], texts(body), int(row["tokens_text"])


def measure(samples):
    """The names of the classes, and for each text: its tokens, the estimate in the code, its classes."""
    lines = "".join(json.dumps(text) + "\n" for text in samples)
    run = subprocess.run([COUNT], input=lines, capture_output=True, text=True, check=True)
    names, *rows = map(json.loads, run.stdout.splitlines())
    return names, rows
