"""Keeps the newest messages, and of the older ones what was asked and which tools ran."""
import json
import sys
from collections import Counter

SUMMARY = 1000  # tokens that ours may take


def first_line(text):
    return next((line.strip() for line in text.splitlines() if line.strip()), "")[:200]


def compress(shown):
    messages, tokens = shown["messages"], Counter()
    for message in messages:  # messages of one unit stay or go together
        tokens[message["unit"]] += message["tokens"]
    kept = {message["unit"] for message in messages if message["protected"]}
    beside = shown["tokens"] - sum(tokens.values())  # tools and the like
    left = shown["target"] - SUMMARY - beside - sum(tokens[unit] for unit in kept)
    for unit in sorted(set(tokens) - kept, reverse=True):  # newest first, as far as there is room
        left -= tokens[unit]
        if left < 0:
            break
        kept.add(unit)
    gone = [message for message in messages if message["unit"] not in kept]
    lines, tools = [], Counter()
    for block in (block for message in gone for block in message["blocks"]):
        if block["kind"] == "checkpoint":  # what we wrote last time: one summary takes the place of another
            lines += [line for line in block["text"].splitlines() if line.startswith("- asked: ")]
        elif block["kind"] == "prompt":
            lines.append("- asked: " + first_line(block["text"]))
        elif block["kind"] == "call":
            tools[block["tool"]] += 1
    lines = lines[-20:] + [f"- {tool} ran {count} times" for tool, count in sorted(tools.items())]
    return {"remove": [message["index"] for message in gone], "summary": "\n".join(lines)}


ANSWERS = {
    "hello": lambda _: {"name": "newest", "version": "1.0", "protocol": 1, "capabilities": ["should_compress", "compress"]},
    "should_compress": lambda load: {"due": load["tokens"] >= load["threshold"], "reason": "the threshold is reached"},
    "compress": compress,
}

for line in sys.stdin:  # ends with whoever started it
    call = json.loads(line)
    print(json.dumps({"id": call["id"], "result": ANSWERS[call["method"]](call["params"])}), flush=True)
