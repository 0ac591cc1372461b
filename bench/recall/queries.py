#!/usr/bin/env python3
"""What agents needed later, as questions to a search.

    LONGHAUL_SHARED=… bench/recall/queries.py [--cuts 0.4,0.6,0.75] [--least 5] [--least-bytes 40000] > queries.jsonl

Each real body is cut just before a reply. For each exact value that a later call uses, that was seen before the cut and not again
since (`measure/future_refs.py`), a row is written: the body, the cut, the value, and as the query all that the needing reply says,
its words and its call, with the value taken out of it. Of Responses bodies the items right before a call belong to the reply.
"""
import argparse, glob, json, os, sys

shared = os.environ.get("LONGHAUL_SHARED") or sys.exit("LONGHAUL_SHARED is not set: there are no real bodies to read")
sys.path.insert(0, os.path.join(shared, "measure"))
from future_refs import atoms, call_args, needed, text_of  # noqa: E402
from retention import is_reply, items, weights  # noqa: E402


def reply(messages, at):
    """The whole reply that a message is the end of."""
    first = at
    while first > 0 and is_reply(messages[first - 1]) and "type" in messages[first]:
        first -= 1
    said = "\n".join(text_of(m) for m in messages[first : at + 1])
    return said.replace("\\n", "\n").replace("\\t", "\t").replace('\\"', '"')


def rows(path, share, least):
    messages = items(json.load(open(path)))
    if not isinstance(messages, list):
        return
    size = weights(messages)
    total, sum_, cut = sum(size), 0, 0
    while cut < len(messages) and sum_ < share * total:
        sum_ += size[cut]
        cut += 1
    while cut < len(messages) and not is_reply(messages[cut]):
        cut += 1
    wanted = needed(messages, cut)
    if len(wanted) < least:
        return
    for value in sorted(wanted):
        at = next(i for i in range(cut, len(messages)) if value in atoms(call_args(messages[i])))
        yield {"body": path, "cut": cut, "value": value, "query": reply(messages, at).replace(value, " ")}


def main():
    ap = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ap.add_argument("--cuts", default="0.4,0.6,0.75")
    ap.add_argument("--least", type=int, default=5, help="values that a body must need to be counted")
    ap.add_argument("--least-bytes", type=int, default=40_000, help="of the body")
    a = ap.parse_args()
    for path in sorted(glob.glob(os.path.join(shared, "corpus", "*.json"))):
        if os.path.getsize(path) >= a.least_bytes:
            for share in a.cuts.split(","):
                for row in rows(path, float(share), a.least):
                    print(json.dumps(row, ensure_ascii=False))


if __name__ == "__main__":
    main()
