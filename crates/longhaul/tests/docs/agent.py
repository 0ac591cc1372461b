"""Stands for an agent: finds the address that it was told, and sends a session there, request by request."""

import json, os, re, sys, urllib.request

name, arguments = sys.argv[1] if len(sys.argv) > 1 else "python3", sys.argv[2:]
if arguments[:1] == ["mcp"]:
    sys.exit(0)

told = list(arguments) + [value for key, value in os.environ.items() if not key.startswith("LONGHAUL_")]
told += [open(path).read() for path in arguments if os.path.isfile(path)]
found = [re.search(r"http://127\.0\.0\.1:\d+(/lh-[\w-]+)?", text) for text in told]
found = [match.group(0) for match in found if match]
if not found:
    sys.exit(f"{name} was told no address")

# Codex is given the key of the run in a variable, since everybody can read its arguments.
KEY = {"openai-project": os.environ["OPENAI_PROJECT"]} if "OPENAI_PROJECT" in os.environ else {}
example = json.load(open("session.json"))["messages"]
results = [message["content"] for message in example if message["role"] == "tool"]
# Claude Code alone works until its context window is too small; the others only ask once.
steps = 13 if (name, arguments) == ("claude", []) else 1
# Another task with each run, so that none continues the session of the one before.
runs = os.path.expanduser("~/.runs")
open(runs, "a").write(".")
messages = [{"role": "user", "content": f"Task {os.path.getsize(runs)}. {example[1]['content']}"}]
for step in range(steps):
    body = {"model": "claude-sonnet-4-5", "max_tokens": 4000, "system": example[0]["content"], "messages": messages}
    path = "/v1/messages"
    if name != "claude":
        body = {"model": "gpt-5", "messages": [example[0]] + messages}
        path = "/v1/chat/completions"
    request = urllib.request.Request(found[0] + path, json.dumps(body).encode(), {"content-type": "application/json", "x-api-key": "sk-example", "authorization": "Bearer sk-example", **KEY})
    with urllib.request.urlopen(request) as reply:
        json.load(reply)
    call = {"type": "tool_use", "id": f"toolu_{step:02}", "name": "bash", "input": {"command": f"cargo test -p part{step}"}}
    output = "".join(f"part{step} run {run}\n{text}" for run in range(2) for text in results)
    messages.append({"role": "assistant", "content": [{"type": "text", "text": f"I test part {step}."}, call]})
    messages.append({"role": "user", "content": [{"type": "tool_result", "tool_use_id": call["id"], "content": output}]})
