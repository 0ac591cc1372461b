"""Long chat bodies, put together from pieces of the corpus.

A piece is a run of whole units from one body: a message, or a call message with all its results. Pieces with few and with
many tokens a message are taken so that the mean stays where it is wanted. Call ids are
made unique. When every piece has been used they are used again, each text with a line before it that says which round this
is, so that nothing is a plain repetition. No randomness: the same corpus gives the same bytes.

    python3 bench/compress/bodies.py FOLDER [small|large|huge …]
"""

import csv
import json
import os
import sys
from pathlib import Path

MESSAGES = {"small": 300, "large": 3_000, "huge": 25_000}
TOKENS_EACH = 412
PIECE = 12
NEWEST_TURN = 5


def units(messages):
    """The messages in whole units; a call without all of its results beside it is left out, as is every system message."""
    at = 0
    while at < len(messages):
        message = messages[at]
        end = at + 1
        while end < len(messages) and messages[end]["role"] == "tool":
            end += 1
        wanted = [call["id"] for call in message.get("tool_calls") or []]
        given = [result.get("tool_call_id") for result in messages[at + 1 : end]]
        if message["role"] in ("user", "assistant") and sorted(wanted) == sorted(given) and len(set(wanted)) == len(wanted):
            yield messages[at:end]
        at = end


def pieces(shared):
    """Thin pieces (few tokens a message) and fat ones, each `(messages, tokens)`, taken from the bodies in turn.

    Bodies whose agent had no tools are not used: their tool outputs are user messages, which the alternative redacts in full,
    and no session of calls and results would look like that.
    """
    rows = list(csv.DictReader(open(shared / "corpus/INDEX.csv", encoding="utf-8")))
    queues = {"thin": [], "fat": []}
    for row in sorted(rows, key=lambda row: row["file"]):
        if row["dialect"] != "openai-chat" or int(row["tool_calls"]) < 5:
            continue
        messages = json.loads((shared / "corpus" / row["file"]).read_bytes())["messages"]
        each = int(row["tokens_text"]) / sum(map(size, messages))
        found, piece = {"thin": [], "fat": []}, []
        for unit in units(messages):
            piece += unit
            if len(piece) >= PIECE:
                tokens = each * sum(map(size, piece))
                found["thin" if tokens < TOKENS_EACH * len(piece) else "fat"].append((piece, tokens))
                piece = []
        for kind, queue in found.items():
            queues[kind].append(queue)
    return {kind: in_turn(found) for kind, found in queues.items()}


def in_turn(queues):
    """One of each list, then the next of each, until all are empty."""
    longest = max(map(len, queues))
    return [queue[i] for i in range(longest) for queue in queues if i < len(queue)]


def size(message):
    """Bytes of a message's texts and call arguments."""
    content = message.get("content") or ""
    texts = [content] if isinstance(content, str) else [part.get("text", "") for part in content]
    texts += [call["function"]["arguments"] for call in message.get("tool_calls") or []]
    return sum(len(text.encode()) for text in texts)


def body(shared, wanted):
    """A body of exactly `wanted` messages."""
    stock = pieces(shared)
    used = {"thin": 0, "fat": 0}
    tokens = 0
    messages = [{"role": "system", "content": "You are a careful engineer. Use the tools, and say what you did."}]
    while len(messages) < wanted:
        room = wanted - len(messages)
        kind = "thin" if tokens > TOKENS_EACH * len(messages) else "fat"
        piece, weight = stock[kind][used[kind] % len(stock[kind])]
        round_number = used[kind] // len(stock[kind])
        used[kind] += 1
        if room <= NEWEST_TURN + PIECE:
            piece = closing(stock["thin"], room)
        messages += [copied(message, round_number) for message in piece]
        tokens += weight
    numbered(messages)
    names = sorted({call["function"]["name"] for message in messages for call in message.get("tool_calls") or []})
    tools = [{"type": "function", "function": {"name": name, "parameters": {"type": "object"}}} for name in names]
    return {"model": "gpt-4o", "tools": tools, "messages": messages}


def closing(stock, room):
    """Single calls with their results, and before the last `NEWEST_TURN` messages a request, so that the turn is a real one."""
    pairs = [unit for piece, _ in stock for unit in units(piece) if len(unit) == 2]
    before = [message for pair in pairs for message in pair][: (room - NEWEST_TURN) // 2 * 2]
    filler = [{"role": "user", "content": "Go on."}] * (room - NEWEST_TURN - len(before))
    request = {"role": "user", "content": "Run the tests again and tell me what still fails."}
    return before + filler + [request] + [message for pair in pairs[-(NEWEST_TURN // 2) :] for message in pair]


def copied(message, round_number):
    """The message with the parts that every chat host takes."""
    head = f"Round {round_number}.\n" if round_number else ""
    made = {"role": message["role"], "content": headed(message.get("content"), head)}
    if message.get("tool_calls"):
        made["tool_calls"] = [{"id": call["id"], "type": "function", "function": call["function"]} for call in message["tool_calls"]]
    if message["role"] == "tool":
        made["tool_call_id"] = message["tool_call_id"]
    return made


def headed(content, head):
    """A message's content with a line before its text."""
    if isinstance(content, list):
        return [{"type": "text", "text": head + part["text"]} for part in content if part.get("type") == "text"]
    return head + content if content else content


def numbered(messages):
    """Gives every call an id of its own, and each result the id of the call that it stands behind."""
    ids, count = {}, 0
    for message in messages:
        for call in message.get("tool_calls") or []:
            count += 1
            old, call["id"] = call["id"], f"call_{count:06}"
            ids[old] = call["id"]
        if message["role"] == "tool":
            message["tool_call_id"] = ids[message["tool_call_id"]]


def write(folder, names=tuple(MESSAGES)):
    """Writes the bodies named into the folder and gives their paths."""
    shared = Path(os.environ["LONGHAUL_SHARED"])
    paths = {}
    for name in names:
        paths[name] = Path(folder) / f"{name}.chat.json"
        paths[name].write_text(json.dumps(body(shared, MESSAGES[name]), ensure_ascii=False), encoding="utf-8")
    return paths


if __name__ == "__main__":
    for name, path in write(sys.argv[1], sys.argv[2:] or tuple(MESSAGES)).items():
        print(name, path, path.stat().st_size)
