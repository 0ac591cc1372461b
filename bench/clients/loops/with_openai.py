"""A tool loop with OpenAI's own package, whole answers or streams:  with_openai.py chat|responses json|stream MODEL TASK"""
import json
import sys

import openai

import shell

dialect, how, model, task = sys.argv[1:5]
client = openai.OpenAI(max_retries=0)


def functions():
    for name, (says, argument, _) in shell.TOOLS.items():
        yield {"name": name, "description": says, "parameters": shell.schema(argument)}


def chat():
    messages = [{"role": "system", "content": shell.SYSTEM}, {"role": "user", "content": task}]
    tools = [{"type": "function", "function": function} for function in functions()]
    for _ in range(shell.TURNS):
        message = completion(dict(model=model, messages=messages, tools=tools))
        if not message.tool_calls:
            return message.content
        messages.append({"role": "assistant", "content": message.content, "tool_calls": [
            {"id": call.id, "type": "function", "function": {"name": call.function.name, "arguments": call.function.arguments}}
            for call in message.tool_calls]})
        for call in message.tool_calls:
            said = shell.run(call.function.name, json.loads(call.function.arguments))
            messages.append({"role": "tool", "tool_call_id": call.id, "content": said})


def completion(request):
    if how == "stream":
        with client.chat.completions.stream(**request, stream_options={"include_usage": True}) as stream:
            shell.note(stream._response.headers)
            return stream.get_final_completion().choices[0].message
    raw = client.chat.completions.with_raw_response.create(**request)
    shell.note(raw.headers)
    return raw.parse().choices[0].message


def responses():
    items = [{"role": "user", "content": task}]
    tools = [{"type": "function", "strict": False, **function} for function in functions()]
    for _ in range(shell.TURNS):
        answer = response(dict(model=model, instructions=shell.SYSTEM, input=items, tools=tools, store=False,
                               include=["reasoning.encrypted_content"]))
        items += [item.model_dump(exclude_none=True) for item in answer.output]
        calls = [item for item in answer.output if item.type == "function_call"]
        if not calls:
            return answer.output_text
        items += [{"type": "function_call_output", "call_id": call.call_id, "output": shell.run(call.name, json.loads(call.arguments))}
                  for call in calls]


def response(request):
    if how == "stream":
        with client.responses.stream(**request) as stream:
            shell.note(stream._response.headers)
            return stream.get_final_response()
    raw = client.responses.with_raw_response.create(**request)
    shell.note(raw.headers)
    return raw.parse()


print({"chat": chat, "responses": responses}[dialect]())
