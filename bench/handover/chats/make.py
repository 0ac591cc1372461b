#!/usr/bin/env python3
"""Makes six chats without tools, and measures which answers a compacted chat still has.

    make.py --tool target/release/longhaul [--show]

Each chat is invented: its table has lines that tell something, with a question and the words of the answer, and the small talk
between them is common to all. A chat is compacted to 0.5, 0.25 and 0.1 of its size. An answer is kept if all of its words are in
what is left. Beside it stands the plain alternative of the same size: the first message and the newest ones.
"""
import argparse
import collections
import json
import os
import random
import re
import subprocess

SIZES = (0.5, 0.25, 0.1)
SMALLEST_WINDOW = 4000
HERE = os.path.dirname(os.path.abspath(__file__))


def words(text):
    return re.sub(r"[^a-z0-9äöüßéè ]+", " ", text.lower()).split()


def messages_of(chat, filler):
    """The chat with its telling lines in their order, spread over `exchanges` exchanges of small talk."""
    draw = random.Random(chat["name"])
    facts, count = chat["facts"], chat["exchanges"]
    places = sorted(draw.sample(range(1, count - 1), len(facts)))
    messages = [{"role": "user", "content": chat["opening"]}, {"role": "assistant", "content": chat["reply"]}]
    told = dict(zip(places, facts))
    for at in range(1, count):
        user, assistant = " ".join(draw.sample(filler["user"], 2)), " ".join(draw.sample(filler["assistant"], 3))
        if at in told:
            fact = told[at]
            if fact["by"] == "user":
                user = f"{user} {fact['line']} {draw.choice(filler['tail'])}"
            else:
                user, assistant = fact["ask"], f"{draw.choice(filler['lead'])} {fact['line']} {assistant}"
        messages += [{"role": "user", "content": user}, {"role": "assistant", "content": assistant}]
    return messages + [{"role": "user", "content": chat["end"]}]


def run(tool, arguments, body):
    return subprocess.run([tool, *arguments], input=body, stdout=subprocess.PIPE, check=False).stdout


def plain(messages, share):
    room = sum(len(message["content"]) for message in messages) * share - len(messages[0]["content"])
    kept = [messages[0]["content"]]
    for message in reversed(messages[1:]):
        if room < len(message["content"]):
            break
        room -= len(message["content"])
        kept.append(message["content"])
    return set(words(" ".join(kept)))


def main():
    ap = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ap.add_argument("--tool", default="target/release/longhaul")
    ap.add_argument("--show", action="store_true")
    a = ap.parse_args()
    table = json.load(open(os.path.join(HERE, "chats.json")))
    total = collections.Counter()
    for chat in table["chats"]:
        messages = messages_of(chat, table["filler"])
        body = json.dumps({"model": "gpt-5", "messages": messages}, ensure_ascii=False).encode()
        tokens = json.loads(run(a.tool, ["tokens", "--json", "-"], body))["total"]
        row = collections.Counter()
        for size in SIZES:
            window = ["--to-tokens", str(int(tokens * size)), "--context-length", str(max(SMALLEST_WINDOW, 2 * tokens)), "--force"]
            after = json.loads(run(a.tool, ["compress", "-", *window], body))
            left, alone = set(words(json.dumps(after, ensure_ascii=False))), plain(messages, size)
            for fact in chat["facts"]:
                row[f"{size}"] += set(words(fact["answer"])) <= left
                row[f"plain {size}"] += set(words(fact["answer"])) <= alone
                if a.show and not set(words(fact["answer"])) <= left:
                    print(f"{chat['name']} {size}: lost {fact['question']} ({fact['answer']})")
        row["n"] = len(chat["facts"])
        total += row
        print(chat["name"], len(messages), tokens, {key: round(value / row["n"], 2) for key, value in row.items() if key != "n"})
    print({key: round(value / total["n"], 3) for key, value in total.items() if key != "n"})


if __name__ == "__main__":
    main()
