#!/usr/bin/env python3
"""How often is what stood before a cut needed after it, by where it stood and by how old it was? And how much could be kept?

    rates.py --measure DIR FOLDER [--longhaul target/release/longhaul]

DIR holds `retention.py` and `future_refs.py`, which say how a session is cut and what counts as needed; FOLDER holds the bodies.
Sessions are those that `retention.py` takes. A value or line counts once a session: as one of a call if any call had it, else
where it stood last. Its age is that of its newest message, by quarter of the part before the cut, the newest quarter first.

The bound: a size below the floor that `longhaul compress --preview --json` names cannot be reached, and counts as nothing kept.
"""
import argparse, glob, json, os, subprocess, sys
from collections import Counter

PLACES = ["call arguments", "assistant text", "tool results", "user text", "system text"]
CALLS = ("function_call", "custom_tool_call", "tool_use", "tool_calls")
OUTPUTS = ("function_call_output", "custom_tool_call_output", "tool_result")
BY_ROLE = {"assistant": "assistant text", "tool": "tool results", "user": "user text"}


def parts(message):
    """A message as pairs of a place and what stands there."""
    kind, role, content = message.get("type"), message.get("role"), message.get("content")
    if kind in CALLS:
        return [("call arguments", message.get("arguments") or message.get("input"))]
    if kind in OUTPUTS:
        return [("tool results", message.get("output"))]
    place = "assistant text" if kind == "reasoning" else BY_ROLE.get(role, "system text")
    out = [("call arguments", call.get("function", {}).get("arguments")) for call in message.get("tool_calls") or []]
    for block in content if isinstance(content, list) else []:
        sort = block.get("type") if isinstance(block, dict) else None
        if sort in CALLS:
            out.append(("call arguments", block.get("input")))
        elif sort in OUTPUTS:
            out.append(("tool results", block.get("content")))
        else:
            out.append((place, block))
    rest = {k: v for k, v in message.items() if k != "tool_calls" and not (k == "content" and isinstance(v, list))}
    return out + [(place, rest)]


def cut_of(retention, messages):
    size = retention.weights(messages)
    done, cut = 0, 0
    while cut < len(messages) and done < 0.6 * sum(size):
        done += size[cut]
        cut += 1
    while cut < len(messages) and not retention.is_reply(messages[cut]):
        cut += 1
    return cut


def sightings(refs, messages, size, find):
    """Where each thing that `find` sees in a text stands: its place, and the quarter of its newest message (0 is the newest)."""
    seen, newer, all_of_it = {}, 0, sum(size)
    for message, weight in zip(reversed(messages), reversed(size)):
        quarter = min(3, int(4 * newer / all_of_it))
        newer += weight
        for place, part in parts(message):
            for thing in find(refs.text_of(part)):
                last = seen.setdefault(thing, (place, quarter))
                if place == "call arguments":
                    seen[thing] = (place, last[1])
    return seen


class Rates:
    def __init__(self, what):
        self.what, self.all, self.needed, self.elsewhere = what, Counter(), Counter(), 0

    def enter(self, seen, needed):
        self.all.update(seen.values())
        self.needed.update(where for thing, where in seen.items() if thing in needed)
        self.elsewhere += len(needed - seen.keys())

    def row(self, name, places):
        cells = []
        for quarters in [range(4), [0], [1], [2], [3]]:
            where = [(place, quarter) for place in places for quarter in quarters]
            needed, of = sum(self.needed[w] for w in where), sum(self.all[w] for w in where)
            cells.append(f"{needed} of {of}" + (f" = {needed / of:.4f}" if of else ""))
        print(f"| {name} | " + " | ".join(cells) + " |")

    def show(self):
        print(f"\n| {self.what} in | all | newest quarter | second | third | oldest |\n|" + " --- |" * 6)
        for place in PLACES:
            self.row(place, [place])
        self.row("anywhere but calls", PLACES[1:])
        print(f"\nneeded {self.what} that stood there only as part of something longer: {self.elsewhere}")


def floor_of(tool, body, tokens):
    call = [tool, "compress", "-", "--preview", "--json", "--force", "--summarizer", "none", "--quiet"]
    call += ["--context-length", str(tokens * 2), "--to-tokens", str(tokens // 2)]
    run = subprocess.run(call, input=json.dumps(body, ensure_ascii=False), capture_output=True, text=True)
    if run.returncode:
        raise SystemExit(f"longhaul compress failed: {run.stderr.strip()}")
    return json.loads(run.stdout)["tokens"]["floor"]


def main():
    ap = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ap.add_argument("folder")
    ap.add_argument("--measure", required=True)
    ap.add_argument("--longhaul", default="target/release/longhaul")
    ap.add_argument("--to", default="0.5,0.25,0.1")
    ap.add_argument("--min-tokens", type=int, default=12000)
    a = ap.parse_args()
    sys.path.insert(0, a.measure)
    import future_refs as refs, retention

    def lines_of(text):
        return refs.lines_of(text.replace("\\n", "\n").replace("\\t", "\t"))

    values, lines, floors = Rates("values"), Rates("lines"), []
    for path in sorted(glob.glob(os.path.join(a.folder, "*.json"))):
        body = json.load(open(path))
        messages = retention.items(body)
        if not isinstance(messages, list):
            continue
        cut = cut_of(retention, messages)
        before, size = messages[:cut], retention.weights(messages[:cut])
        need = refs.needed(messages, cut)
        if len(need) < 5:
            continue
        tokens = retention.tokens(a.longhaul, retention.with_items(body, before))
        if tokens < a.min_tokens:
            continue
        values.enter(sightings(refs, before, size, refs.atoms), need)
        lines.enter(sightings(refs, before, size, lines_of), refs.needed_lines(messages, cut))
        floors.append((floor_of(a.longhaul, retention.with_items(body, before), tokens), tokens))
    print(f"{len(floors)} sessions")
    values.show()
    lines.show()
    print("\n| to | floor above it | by at least (tokens) | so a mean is at most |\n|" + " --- |" * 4)
    for share in (float(x) for x in a.to.split(",")):
        # retention.py lets a result be larger than asked by half a percent.
        over = [floor - share * 1.005 * tokens for floor, tokens in floors]
        above = [tokens for tokens in over if tokens > 0]
        most = (len(over) - len(above)) / max(1, len(over))
        print(f"| {share} | {len(above)} of {len(over)} sessions | {min(above, default=0):,.0f} | {most:.3f} |")


if __name__ == "__main__":
    main()
