"""OpenAI Chat Completions: reading a request, and answering it whole or as a stream."""
import json
import time

from . import Seen, canonical, pieces, sse, unpaired


def rounds(messages):
    """Each message's calls with the results that follow it at once."""
    out = []
    open_round = ([], [])
    for message in messages:
        if message.get("role") == "tool":
            open_round[1].append(message.get("tool_call_id"))
            continue
        out.append(open_round)
        open_round = ([call["id"] for call in message.get("tool_calls") or []], [])
    return [*out, open_round]


def read(body):
    messages = body.get("messages", [])
    tools = body.get("tools") or []
    form = body.get("response_format") or {}
    return Seen(
        tools={tool["function"]["name"]: tool["function"].get("parameters") or {} for tool in tools if "function" in tool},
        prompt=[canonical(piece) for piece in [*tools, *messages]],
        calls=[called for called, _ in rounds(messages) if called],
        orphans=unpaired(rounds(messages)),
        schema=(form.get("json_schema") or {}).get("schema"),
        several=body.get("parallel_tool_calls") is not False,
    )


def counts(usage):
    prompt = usage.read + usage.fresh
    return {
        "prompt_tokens": prompt, "completion_tokens": usage.output, "total_tokens": prompt + usage.output,
        "prompt_tokens_details": {"cached_tokens": usage.read}, "completion_tokens_details": {"reasoning_tokens": 0},
    }


def call(made):
    return {"id": made.id, "type": "function", "function": {"name": made.name, "arguments": json.dumps(made.arguments)}}


def ending(reply):
    return "tool_calls" if reply.calls else "stop"


def frame(reply, body, kind):
    return {"id": f"chatcmpl-{reply.id}", "object": kind, "created": int(time.time()), "model": body.get("model")}


def whole(reply, body, usage):
    message = {"role": "assistant", "content": reply.text or None, "refusal": None}
    if reply.calls:
        message["tool_calls"] = [call(made) for made in reply.calls]
    choice = {"index": 0, "message": message, "logprobs": None, "finish_reason": ending(reply)}
    return {**frame(reply, body, "chat.completion"), "choices": [choice], "usage": counts(usage)}


def deltas(reply):
    yield {"role": "assistant", "content": ""}
    for piece in pieces(reply.text) if reply.text else []:
        yield {"content": piece}
    for index, made in enumerate(reply.calls):
        opened = call(made)
        arguments = opened["function"].pop("arguments")
        yield {"tool_calls": [{"index": index, **opened, "function": {**opened["function"], "arguments": ""}}]}
        for piece in pieces(arguments):
            yield {"tool_calls": [{"index": index, "function": {"arguments": piece}}]}


def events(reply, body, usage):
    wants_usage = (body.get("stream_options") or {}).get("include_usage")
    same = {**frame(reply, body, "chat.completion.chunk"), **({"usage": None} if wants_usage else {})}
    for delta in deltas(reply):
        yield sse({**same, "choices": [{"index": 0, "delta": delta, "logprobs": None, "finish_reason": None}]})
    yield sse({**same, "choices": [{"index": 0, "delta": {}, "logprobs": None, "finish_reason": ending(reply)}]})
    if wants_usage:
        yield sse({**same, "choices": [], "usage": counts(usage)})
    yield sse("[DONE]")


def error(message, code):
    return {"error": {"message": message, "type": "invalid_request_error", "param": "messages", "code": code}}


def too_long(tokens, window, _id):
    return error(
        f"This model's maximum context length is {window} tokens. However, your messages resulted in {tokens} tokens. Please reduce "
        "the length of the messages.", "context_length_exceeded")


def mispaired(orphans, _id):
    return error(
        "An assistant message with 'tool_calls' must be followed by tool messages responding to each 'tool_call_id'. "
        f"({'; '.join(orphans)})", None)
