"""Does the served model keep an unchanged prefix cached, and does it say so?

    bench/model/serve > address &
    python3 bench/model/try.py "$(cat address)" [--lines 60]

One session of three requests, each the one before with its reply and a further question appended. Between the second and the third,
another session asks something of its own, as a summary in the background would. At the end the same transcript is sent once more
with its first line changed, which must cost the whole prompt: without that, a server that calls everything cached would pass.

Prints what each request cost and what was cached. Exits with 1 if a prefix that did not change was not cached.
"""

import argparse
import json
import sys
import time
import urllib.request

QUESTIONS = ["Which file was read last?", "Which port does the server use?", "What should be done next?"]
REPLY_TOKENS = 32
# A server may count the opening of the reply anew; everything before it has the same bytes.
SLACK = 8


def ask(address, messages):
    """The reply's text, the provider's usage and llama.cpp's own times."""
    body = {"messages": messages, "max_tokens": REPLY_TOKENS, "temperature": 0}
    request = urllib.request.Request(
        f"{address}/v1/chat/completions", json.dumps(body).encode(), {"content-type": "application/json"}
    )
    with urllib.request.urlopen(request, timeout=600) as response:
        answer = json.load(response)
    return answer["choices"][0]["message"]["content"], answer["usage"], answer["timings"]


def material(title, lines):
    """A system message of `lines` lines. The title opens it, so that another title leaves no common prefix."""
    log = "\n".join(f"{n:03} read src/part_{n}.rs: {n * 37 % 211} lines, port {8000 + n}, all tests passed" for n in range(lines))
    return {"role": "system", "content": f"{title}: you help with a program. What was done so far:\n{log}"}


def show(name, usage, timings, unchanged):
    prompt, cached = usage["prompt_tokens"], usage["prompt_tokens_details"]["cached_tokens"]
    print(
        f"{name:<18} {prompt:>7} {unchanged:>10} {cached:>7} {prompt - cached:>7}"
        f" {timings['prompt_per_token_ms']:>10.2f} {timings['predicted_per_token_ms']:>10.2f}",
        flush=True,
    )
    return cached


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("address", help="what serve printed, http://127.0.0.1:PORT")
    parser.add_argument("--lines", type=int, default=60, help="how long the first message is; a line is about 30 tokens")
    options = parser.parse_args()
    # The server may still hold the sessions of an earlier run: each run has titles of its own.
    run = time.time_ns()

    print(f"{'request':<18} {'prompt':>7} {'unchanged':>10} {'cached':>7} {'read':>7} {'ms/read':>10} {'ms/written':>10}")
    faults = []
    unchanged = 0
    messages = [material(f"session {run}", options.lines)]
    for number, question in enumerate(QUESTIONS, 1):
        messages.append({"role": "user", "content": question})
        reply, usage, timings = ask(options.address, messages)
        cached = show(f"request {number}", usage, timings, unchanged)
        if cached < unchanged - SLACK:
            faults.append(f"request {number}: {unchanged} tokens did not change, {cached} were cached")
        unchanged = usage["prompt_tokens"]
        messages.append({"role": "assistant", "content": reply})
        if number == 2:
            aside = [material(f"aside {run}", options.lines // 4), {"role": "user", "content": "Summarize this."}]
            _, usage, timings = ask(options.address, aside)
            show("another session", usage, timings, 0)

    changed = [material(f"changed {run}", options.lines), *messages[1:-1]]
    _, usage, timings = ask(options.address, changed)
    cached = show("first line changed", usage, timings, 0)
    if cached > usage["prompt_tokens"] // 10:
        faults.append(f"first line changed: {cached} tokens are said to be cached that cannot be")

    for fault in faults:
        print(fault, file=sys.stderr)
    sys.exit(1 if faults else 0)


if __name__ == "__main__":
    main()
