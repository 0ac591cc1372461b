"""A tool loop with Anthropic's own package, whole answers or streams:  with_anthropic.py json|stream MODEL TASK"""
import sys

import anthropic

import shell

how, model, task = sys.argv[1:4]
client = anthropic.Anthropic(max_retries=0)
tools = [{"name": name, "description": says, "input_schema": shell.schema(argument)} for name, (says, argument, _) in shell.TOOLS.items()]
messages = [{"role": "user", "content": task}]


def ask():
    request = dict(model=model, max_tokens=1024, system=shell.SYSTEM, tools=tools, messages=messages)
    if how == "stream":
        with client.messages.stream(**request) as stream:
            shell.note(stream.response.headers)
            return stream.get_final_message()
    raw = client.messages.with_raw_response.create(**request)
    shell.note(raw.headers)
    return raw.parse()


for _ in range(shell.TURNS):
    answer = ask()
    calls = [block for block in answer.content if block.type == "tool_use"]
    if not calls:
        print("".join(block.text for block in answer.content if block.type == "text"))
        break
    messages.append({"role": "assistant", "content": [block.model_dump(exclude_none=True) for block in answer.content]})
    results = [{"type": "tool_result", "tool_use_id": call.id, "content": shell.run(call.name, call.input)} for call in calls]
    messages.append({"role": "user", "content": results})
