#!/usr/bin/env python3
"""Is the message that answers a question about a chat among the first hits of a search with the question's words?

    bench/recall/chats.py target/release/longhaul CHATS.json [--match conv-26,conv-30]

CHATS.json holds chats in LoCoMo's format. Each is compacted to a tenth of its tokens into a store of its own, and all of its
questions are asked (adversarial ones excepted, which have no answer). A question counts as met if one of the first k hits is a
block with the text of one of the messages that the set names as evidence. `measure/locomo.py` asks a sample of the same questions.
"""
import argparse, collections, json, os, re, sqlite3, subprocess, tempfile


def plain(text):
    return re.sub(r"[^a-z0-9 ]+", " ", str(text).lower())


def read(chat):
    """The request body of a chat, and the text of each of its turns."""
    talk, messages, texts, number = chat["conversation"], [], {}, 1
    while f"session_{number}" in talk:
        date = talk.get(f"session_{number}_date_time", "")
        for at, turn in enumerate(talk[f"session_{number}"]):
            role = "user" if turn["speaker"] == talk["speaker_a"] else "assistant"
            said = (f"[{date}] " if at == 0 else "") + f"{turn['speaker']}: {turn['text']}"
            said += f" (shares a picture: {turn['blip_caption']})" if turn.get("blip_caption") else ""
            if messages and messages[-1]["role"] == role:
                messages[-1]["content"] += "\n" + said
            else:
                messages.append({"role": role, "content": said})
            texts[turn["dia_id"]] = turn["text"]
        number += 1
    if messages[0]["role"] == "assistant":
        messages.insert(0, {"role": "user", "content": "(the chat begins)"})
    if messages[-1]["role"] == "assistant":
        messages.append({"role": "user", "content": "Let us go on."})
    return {"model": "gpt-5", "messages": messages}, texts


def main():
    ap = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ap.add_argument("longhaul")
    ap.add_argument("chats")
    ap.add_argument("--match", default="")
    ap.add_argument("--show", action="store_true", help="print each question that is not met by the first ten")
    a = ap.parse_args()
    total = collections.Counter()
    for chat in json.load(open(a.chats)):
        if a.match and chat["sample_id"] not in a.match.split(","):
            continue
        body, texts = read(chat)
        met = collections.Counter()
        with tempfile.TemporaryDirectory() as folder:
            path, store = os.path.join(folder, "body.json"), os.path.join(folder, "store.db")
            json.dump(body, open(path, "w"), ensure_ascii=False)
            size = json.loads(subprocess.run([a.longhaul, "tokens", "--json", path], capture_output=True).stdout)["total"]
            to = ["--to-tokens", str(size // 10), "--context-length", str(2 * size), "--force", "--summarizer", "none"]
            subprocess.run([a.longhaul, "compress", path, *to, "--store", store, "-o", path + ".out", "--quiet"], capture_output=True)
            for question in chat["qa"]:
                evidence = [plain(texts[e])[:60].strip() for e in question.get("evidence", []) if e in texts]
                if question.get("category") == 5 or not evidence or "answer" not in question:
                    continue
                ask = [a.longhaul, "recall", "--search", question["question"], "--store", store, "--limit", "20", "--json"]
                out = subprocess.run(ask, capture_output=True).stdout
                hits = json.loads(out).get("results", []) if out else []
                said = [plain(body["messages"][hit["at"]]["content"]) for hit in hits]
                at = next((n for n, text in enumerate(said) if any(e in text for e in evidence)), None)
                met["asked"] += 1
                met.update(k for k in (1, 5, 10, 20) if at is not None and at < k)
                if a.show and (at is None or at >= 10):
                    print(chat["sample_id"], question["question"], "->", question["answer"])
        print(line(chat["sample_id"], met), flush=True)
        total += met
    print(line("all", total))


def line(name, met):
    return f"{name:8} {met['asked']:4} questions  " + "  ".join(f"first {k}: {met[k] / max(1, met['asked']):.3f}" for k in (1, 5, 10, 20))


if __name__ == "__main__":
    main()
