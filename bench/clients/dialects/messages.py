"""Anthropic Messages: reading a request, and answering it whole or as a stream."""
import json

from . import Seen, canonical, pieces, sse, unpaired


def blocks(message):
    content = message.get("content")
    return content if isinstance(content, list) else [{"type": "text", "text": content or ""}]


def ids(message, kind, field):
    return [block.get(field) for block in blocks(message) if block.get("type") == kind]


def rounds(messages):
    """Each message's calls with the results of the next one; system messages between them do not count."""
    turns = [message for message in messages if message.get("role") != "system"]
    before = [[]] + [ids(turn, "tool_use", "id") if turn["role"] == "assistant" else [] for turn in turns]
    after = [ids(turn, "tool_result", "tool_use_id") for turn in turns] + [[]]
    return list(zip(before, after))


def read(body):
    messages = body.get("messages", [])
    system = body.get("system") or []
    tools = body.get("tools") or []
    return Seen(
        tools={tool["name"]: tool.get("input_schema") or {} for tool in tools},
        prompt=[canonical(piece) for piece in [*tools, *(system if isinstance(system, list) else [system]), *messages]],
        calls=[called for called, _ in rounds(messages) if called],
        orphans=unpaired(rounds(messages)),
        schema=((body.get("output_config") or {}).get("format") or body.get("output_format") or {}).get("schema"),
    )


def thinks(body):
    return (body.get("thinking") or {}).get("type") in ("enabled", "adaptive")


def content(reply, body):
    out = []
    if thinks(body) and reply.calls:
        out.append({"type": "thinking", "thinking": "The next part comes now.", "signature": f"c2ln{reply.id}"})
    if reply.text:
        out.append({"type": "text", "text": reply.text})
    return out + [{"type": "tool_use", "id": call.id, "name": call.name, "input": call.arguments} for call in reply.calls]


def counts(usage, output):
    return {"input_tokens": usage.fresh, "cache_creation_input_tokens": 0, "cache_read_input_tokens": usage.read, "output_tokens": output}


def whole(reply, body, usage):
    return {
        "id": f"msg_{reply.id}", "type": "message", "role": "assistant", "model": body.get("model"), "content": content(reply, body),
        "stop_reason": "tool_use" if reply.calls else "end_turn", "stop_sequence": None, "usage": counts(usage, usage.output),
    }


def deltas(block):
    """A block as it opens, and what is then added to it."""
    kind = block["type"]
    if kind == "text":
        return {**block, "text": ""}, [{"type": "text_delta", "text": piece} for piece in pieces(block["text"])]
    if kind == "thinking":
        added = [{"type": "thinking_delta", "thinking": piece} for piece in pieces(block["thinking"])]
        return {**block, "thinking": "", "signature": ""}, [*added, {"type": "signature_delta", "signature": block["signature"]}]
    written = pieces(json.dumps(block["input"]))
    return {**block, "input": {}}, [{"type": "input_json_delta", "partial_json": piece} for piece in ["", *written]]


def events(reply, body, usage):
    full = whole(reply, body, usage)
    opening = {**full, "content": [], "stop_reason": None, "usage": counts(usage, 1)}
    yield sse({"type": "message_start", "message": opening}, "message_start")
    yield sse({"type": "ping"}, "ping")
    for index, block in enumerate(full["content"]):
        opened, added = deltas(block)
        yield sse({"type": "content_block_start", "index": index, "content_block": opened}, "content_block_start")
        for delta in added:
            yield sse({"type": "content_block_delta", "index": index, "delta": delta}, "content_block_delta")
        yield sse({"type": "content_block_stop", "index": index}, "content_block_stop")
    ending = {"stop_reason": full["stop_reason"], "stop_sequence": None}
    yield sse({"type": "message_delta", "delta": ending, "usage": {"output_tokens": usage.output}}, "message_delta")
    yield sse({"type": "message_stop"}, "message_stop")


def error(message, id):
    return {"type": "error", "error": {"type": "invalid_request_error", "message": message}, "request_id": f"req_{id}"}


def too_long(tokens, window, id):
    return error(f"prompt is too long: {tokens} tokens > {window} maximum", id)


def mispaired(orphans, id):
    return error(
        f"messages: `tool_use` ids were found without `tool_result` blocks immediately after: {'; '.join(orphans)}. Each `tool_use` "
        "block must have a corresponding `tool_result` block in the next message.", id)
