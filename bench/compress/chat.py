"""A request body of any dialect as the chat messages that another program takes: who said what, calls and results.

Images become a word, reasoning is left out: what is compared is the time that the text takes.
"""

import json


def messages(body):
    """The body's messages in the Chat Completions form."""
    if "input" in body:
        return list(from_responses(body))
    if any(isinstance(part, dict) and part.get("type") in ("tool_use", "tool_result") for part in parts(body["messages"])):
        return list(from_messages(body))
    return body["messages"]


def parts(messages):
    for message in messages:
        content = message.get("content")
        if isinstance(content, list):
            yield from content


def text(content):
    """The words of a content, whatever it is made of."""
    if content is None or isinstance(content, str):
        return content or ""
    return "\n".join(part.get("text", "[image]") if isinstance(part, dict) else str(part) for part in content)


def call(name, identity, arguments):
    arguments = arguments if isinstance(arguments, str) else json.dumps(arguments, ensure_ascii=False)
    return {"id": identity, "type": "function", "function": {"name": name, "arguments": arguments}}


def from_messages(body):
    if body.get("system"):
        yield {"role": "system", "content": text(body["system"])}
    for message in body["messages"]:
        content = message["content"]
        blocks = [{"type": "text", "text": content}] if isinstance(content, str) else content
        said = text([block for block in blocks if block["type"] in ("text", "image")])
        calls = [call(block["name"], block["id"], block["input"]) for block in blocks if block["type"] == "tool_use"]
        for block in blocks:
            if block["type"] == "tool_result":
                yield {"role": "tool", "tool_call_id": block["tool_use_id"], "content": text(block.get("content"))}
        if said or calls:
            yield {"role": message["role"], "content": said} | ({"tool_calls": calls} if calls else {})


def from_responses(body):
    if body.get("instructions"):
        yield {"role": "system", "content": body["instructions"]}
    items = [{"type": "message", "role": "user", "content": body["input"]}] if isinstance(body["input"], str) else body["input"]
    for item in items:
        kind = item.get("type", "message")
        if kind == "message":
            yield {"role": item["role"].replace("developer", "system"), "content": text(item["content"])}
        elif kind.endswith("_call_output"):
            yield {"role": "tool", "tool_call_id": item["call_id"], "content": text(item.get("output"))}
        elif kind.endswith("_call") and "call_id" in item:
            arguments = item.get("arguments") or item.get("input") or item.get("action") or {}
            yield {"role": "assistant", "content": "", "tool_calls": [call(item.get("name", "shell"), item["call_id"], arguments)]}
