#!/usr/bin/env python3
"""One session as long as many, and what its calls needed of what came before.

    LONGHAUL_SHARED=… bench/lossless/session.py FOLDER [--least-bytes 40000]

All real chat bodies of at least so many bytes are joined in the order of their names. A body of which most was said before is left
out. Each ends with its last message that leaves nothing open, a result or a reply without calls; the system prompt is that of the
first, the tools are those of all, an id of a call that came before gets the number of its body, and cache marks are taken out: no
client sends those of all its requests. FOLDER/session.json is the body,
with its messages last. FOLDER/needs.jsonl has a row for each exact value that a call uses and an earlier message held
(`measure/future_refs.py`): the message of the call, the last message before it with the value, and as the query all that the reply
says, with the value taken out of it (`bench/recall/queries.py`). So a value is needed across a cut if the cut is behind the one
message and not behind the other. `same` says whether nobody but the agent and its tools spoke between them: a name that comes up in
one task and again in another was often only thought of twice.
"""
import argparse, glob, json, os, sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "recall"))
from queries import atoms, call_args, reply, shared, text_of  # noqa: E402

MODEL = "gpt-5"  # its vocabulary is public, so that counts are exact
LONG = 200  # shorter messages are alike in any two sessions


def closed(messages):
    """The messages up to the last one that leaves nothing open."""
    end = len(messages)
    while end and (messages[end - 1]["role"] == "user" or messages[end - 1].get("tool_calls")):
        end -= 1
    return messages[:end]


def renamed(messages, used, number):
    """The messages with ids of calls that no earlier body has."""
    own = {call["id"] for m in messages for call in m.get("tool_calls") or []}
    new = {id: f"{id}-{number}" for id in own & used}
    for m in messages:
        for call in m.get("tool_calls") or []:
            call["id"] = new.get(call["id"], call["id"])
        if "tool_call_id" in m:
            m["tool_call_id"] = new.get(m["tool_call_id"], m["tool_call_id"])
    used |= own | set(new.values())
    return messages


def unmarked(node):
    """The same without cache marks."""
    if isinstance(node, list):
        return [unmarked(item) for item in node]
    if isinstance(node, dict):
        return {key: unmarked(value) for key, value in node.items() if key != "cache_control"}
    return node


def joined(paths):
    messages, tools, said, used = [], {}, set(), set()
    for number, path in enumerate(paths):
        body = unmarked(json.load(open(path)))
        own = closed(body["messages"])
        long = [text for text in map(text_of, own) if len(text) >= LONG]
        new = [text for text in long if text not in said]
        if 2 * len(new) < len(long):
            print(f"left out, for most of it was said before: {os.path.basename(path)}", file=sys.stderr)
            continue
        said.update(new)
        for tool in body.get("tools") or []:
            tools.setdefault(tool["function"]["name"], tool)
        messages += renamed([m for m in own if not messages or m["role"] != "system"], used, number)
        print(f"{len(messages):5} messages up to the end of {os.path.basename(path)}", file=sys.stderr)
    return {"model": MODEL, "tools": list(tools.values()), "messages": messages}


def needs(messages):
    """Each value that a call uses and that was seen before, with the last message before the call that holds it."""
    texts = [text_of(m) for m in messages]
    for at, message in enumerate(messages):
        for value in sorted(atoms(call_args(message))):
            last = next((i for i in range(at - 1, -1, -1) if value in texts[i]), None)
            if last is not None:
                same = all(m["role"] != "user" for m in messages[last + 1 : at])
                query = reply(messages, at).replace(value, " ")
                yield {"at": at, "last": last, "same": same, "value": value, "query": query}


def main():
    ap = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ap.add_argument("folder")
    ap.add_argument("--least-bytes", type=int, default=40_000, help="of a body")
    a = ap.parse_args()
    paths = sorted(glob.glob(os.path.join(shared, "corpus", "*.chat.json")))
    body = joined([path for path in paths if os.path.getsize(path) >= a.least_bytes])
    os.makedirs(a.folder, exist_ok=True)
    with open(os.path.join(a.folder, "session.json"), "w") as out:
        json.dump(body, out, ensure_ascii=False)
    with open(os.path.join(a.folder, "needs.jsonl"), "w") as out:
        for row in needs(body["messages"]):
            print(json.dumps(row, ensure_ascii=False), file=out)


if __name__ == "__main__":
    main()
