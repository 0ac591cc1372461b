"""OpenAI Responses: reading a request, and answering it whole or as a stream."""
import json
import time

from . import Seen, canonical, pieces, sse, unpaired

CALLS = ("function_call", "custom_tool_call", "local_shell_call")


def rounds(items):
    """All calls with all results: here a result may stand anywhere after its call."""
    called = [item.get("call_id") for item in items if item.get("type") in CALLS]
    answered = [item.get("call_id") for item in items if str(item.get("type", "")).endswith("_call_output")]
    return called, answered


def offered(tools):
    """All tools, those of namespaces too: name → schema of the arguments, or nothing for a tool that takes free text."""
    out = {}
    for tool in tools:
        if tool.get("type") == "namespace":
            out |= offered(tool.get("tools") or [])
        elif tool.get("type") in ("function", "custom"):
            out[tool["name"]] = tool.get("parameters")
    return out


def read(body):
    items = body.get("input") or []
    items = items if isinstance(items, list) else [{"role": "user", "content": items}]
    tools = body.get("tools") or []
    more = [tool for item in items if item.get("type") == "additional_tools" for tool in item["tools"]]
    called, answered = rounds(items)
    stored = body.get("previous_response_id")
    return Seen(
        tools=offered([*tools, *more]),
        prompt=[canonical(piece) for piece in [*tools, body.get("instructions") or "", *items]],
        calls=[[id] for id in called],
        orphans=[] if stored else unpaired([(called, answered)]),
        schema=((body.get("text") or {}).get("format") or {}).get("schema"),
        several=body.get("parallel_tool_calls") is not False,
    )


def asks_for_compaction(body):
    items = body.get("input") or []
    return isinstance(items, list) and bool(items) and items[-1].get("type") == "compaction_trigger"


def counts(usage):
    prompt = usage.read + usage.fresh
    return {
        "input_tokens": prompt, "input_tokens_details": {"cached_tokens": usage.read}, "output_tokens": usage.output,
        "output_tokens_details": {"reasoning_tokens": 0}, "total_tokens": prompt + usage.output,
    }


def items(reply, body):
    """What the reply adds to the session: reasoning where it is asked for, words, calls; or a compaction, where one is asked for."""
    if asks_for_compaction(body):
        return [{"id": f"cmp_{reply.id}", "type": "compaction", "encrypted_content": f"ZW5j{reply.id}"}]
    out = []
    if reply.calls and "reasoning.encrypted_content" in (body.get("include") or []):
        said = [{"type": "summary_text", "text": "The next part comes now."}]
        out.append({"id": f"rs_{reply.id}", "type": "reasoning", "summary": said, "encrypted_content": f"ZW5j{reply.id}"})
    if reply.text:
        said = [{"type": "output_text", "annotations": [], "logprobs": [], "text": reply.text}]
        out.append({"id": f"msg_{reply.id}", "type": "message", "status": "completed", "role": "assistant", "content": said})
    return out + [called(call) for call in reply.calls]


def called(call):
    same = {"status": "completed", "call_id": call.id, "name": call.name}
    if isinstance(call.arguments, str):
        return {"id": f"ctc_{call.id}", "type": "custom_tool_call", **same, "input": call.arguments}
    return {"id": f"fc_{call.id}", "type": "function_call", **same, "arguments": json.dumps(call.arguments)}


def frame(id, body):
    return {
        "id": f"resp_{id}", "object": "response", "created_at": int(time.time()), "status": "in_progress", "error": None,
        "incomplete_details": None, "instructions": None, "model": body.get("model"), "output": [], "parallel_tool_calls": True,
        "previous_response_id": body.get("previous_response_id"), "store": body.get("store", True), "temperature": 1.0,
        "tool_choice": "auto", "tools": [], "top_p": 1.0, "truncation": "disabled", "usage": None, "metadata": {},
    }


def whole(reply, body, usage):
    return {**frame(reply.id, body), "status": "completed", "output": items(reply, body), "usage": counts(usage)}


def told(item, index):
    """The events between an item's opening and its end."""
    at = {"item_id": item["id"], "output_index": index}
    if item["type"] == "message":
        part = item["content"][0]
        yield {"type": "response.content_part.added", **at, "content_index": 0, "part": {**part, "text": ""}}
        for piece in pieces(part["text"]):
            yield {"type": "response.output_text.delta", **at, "content_index": 0, "delta": piece, "logprobs": []}
        yield {"type": "response.output_text.done", **at, "content_index": 0, "text": part["text"], "logprobs": []}
        yield {"type": "response.content_part.done", **at, "content_index": 0, "part": part}
    elif item["type"] == "function_call":
        for piece in pieces(item["arguments"]):
            yield {"type": "response.function_call_arguments.delta", **at, "delta": piece}
        yield {"type": "response.function_call_arguments.done", **at, "name": item["name"], "arguments": item["arguments"]}
    elif item["type"] == "custom_tool_call":
        for piece in pieces(item["input"]):
            yield {"type": "response.custom_tool_call_input.delta", **at, "delta": piece}
        yield {"type": "response.custom_tool_call_input.done", **at, "input": item["input"]}


EMPTY = {"message": {"content": [], "status": "in_progress"}, "function_call": {"arguments": "", "status": "in_progress"},
         "custom_tool_call": {"input": "", "status": "in_progress"}, "reasoning": {"summary": []}, "compaction": {}}


def story(reply, body, usage):
    full = whole(reply, body, usage)
    yield {"type": "response.created", "response": frame(reply.id, body)}
    yield {"type": "response.in_progress", "response": frame(reply.id, body)}
    for index, item in enumerate(full["output"]):
        yield {"type": "response.output_item.added", "output_index": index, "item": {**item, **EMPTY[item["type"]]}}
        yield from told(item, index)
        yield {"type": "response.output_item.done", "output_index": index, "item": item}
    yield {"type": "response.completed", "response": full}


def numbered(events):
    for number, event in enumerate(events):
        yield sse({**event, "sequence_number": number}, event["type"])


def events(reply, body, usage):
    return numbered(story(reply, body, usage))


def error(message, code):
    return {"error": {"message": message, "type": "invalid_request_error", "param": "input", "code": code}}


TOO_LONG = "Your input exceeds the context window of this model. Please adjust your input and try again."


def too_long(_tokens, _window, _id):
    return error(TOO_LONG, "context_length_exceeded")


def too_long_in_stream(body, id):
    """As the provider says it when a stream was asked for: with status 200, as the end of a response that has begun."""
    failed = {**frame(id, body), "status": "failed", "error": {"code": "context_length_exceeded", "message": TOO_LONG}}
    return numbered([
        {"type": "response.created", "response": frame(id, body)},
        {"type": "response.in_progress", "response": frame(id, body)},
        {"type": "response.failed", "response": failed},
    ])


def mispaired(orphans, _id):
    return error(f"No tool output found for function call: {'; '.join(orphans)}.", None)
