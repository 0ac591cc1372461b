"""Sessions to replay: made up from the repository's examples, real ones where there are some, and one that is full of payloads."""

import json
import os
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]

# The real bodies, with the models whose windows are made small and whose prices are known.
REAL = (
    ("mini-swe-agent_deepseek_chat_test_1-100__django__django-1290-97181202.chat.json", "gpt-5"),
    ("moatless_sympy__sympy-19254.messages.json", "claude-sonnet-4-5"),
    ("codex_rollout-2025-08-06.responses.json", "gpt-5-codex"),
)
# So many requests of a session are sent at most.
REQUESTS = 24
SMALLEST = 4096
PATHS = {"chat": "/v1/chat/completions", "messages": "/v1/messages", "responses": "/v1/responses"}


class Session:
    """A dialect, and the bodies that a client would send one after the other."""

    def __init__(self, dialect, bodies, headers=None):
        self.path, self.bodies, self.headers = PATHS[dialect], bodies, headers or {}


def growing(dialect, body, most=REQUESTS):
    """The beginnings of a body that end where a reply begins, or some of them."""
    key = "input" if dialect == "responses" else "messages"
    items = body[key]

    def replies(at):
        item = items[at]
        return item.get("role") == "assistant" or item.get("type") in ("function_call", "reasoning")

    ends = [at for at in range(2, len(items)) if replies(at) and not replies(at - 1)] + [len(items)]
    step = -(-len(ends) // most)
    bodies = [{**body, key: items[:end]} for end in ends[step - 1 :: step]]
    # A smaller one belongs to no session.
    return [one for one in bodies if len(json.dumps(one)) >= SMALLEST]


def real():
    shared = os.environ.get("LONGHAUL_SHARED")
    if not shared:
        print("LONGHAUL_SHARED is not set: no real bodies are replayed")
        return []
    sessions = []
    for name, model in REAL:
        body = json.loads((Path(shared) / "corpus" / name).read_text())
        dialect = name.split(".")[-2]
        sessions.append(Session(dialect, growing(dialect, {**body, "model": model})))
    return sessions


WORK = (
    ("read_file", {"path": "src/server.rs"}, lambda n: "\n".join(f"{at}: let listener_{at} = bind(config.port + {n});" for at in range(60))),
    ("bash", {"command": "cargo test"}, lambda n: "".join(f"test module_{n}::case_{at} ... ok\n" for at in range(70)) + f"test module_{n}::port ... FAILED\nassertion failed: left 80, right 848{n % 10}\ntest result: FAILED. 70 passed; 1 failed\n"),
    ("edit_file", {"path": "src/config.rs", "old": "80", "new": "8484"}, lambda n: f"edited src/config.rs, line {17 + n}"),
    ("bash", {"command": "grep -rn port src"}, lambda n: "".join(f"src/module_{at}.rs:{at + n}: port: u16,\n" for at in range(50))),
)


def task(dialect, model, title, steps):
    """A session of an agent at work, which says what it does and is told now and then what to do next."""
    turns = [("user", title)]
    for n in range(steps):
        tool, arguments, output = WORK[n % len(WORK)]
        turns.append(("call", f"Step {n + 1}: I look at what {tool} says of it.", tool, {**arguments, "step": n}, output(n)))
        if n % 9 == 8:
            turns += [("reply", f"Part {n // 9 + 1} is done: the port of module {n} is configurable."), ("user", f"Good. Now part {n // 9 + 2}, and keep vendor/ as it is.")]
    return Session(dialect, growing(dialect, body(dialect, model, turns)))


def made_up():
    return [
        task("chat", "gpt-5", "Make the server listen on port 8484 everywhere. Never touch anything under vendor/.", 90),
        task("messages", "claude-sonnet-4-5", "Find out why the nightly build is slow, and write down what you find.", 36),
        task("responses", "gpt-5-codex", "Port the parser to the new lexer, with tests.", 30),
    ]


def unlucky():
    """A session that has been paid for making it smaller when it ends."""
    return task("chat", "gpt-5", "Rename the port in the settings page.", 40)


def body(dialect, model, turns, system="You are a careful programmer.", describe="Runs it."):
    items, names = [], []
    for at, turn in enumerate(turns):
        kind, text, identity = turn[0], turn[1], f"call_{at}"
        if kind == "call":
            _, _, tool, arguments, output = turn
            if tool not in names:
                names.append(tool)
        if dialect == "responses":
            if kind == "call":
                items += [{"type": "function_call", "call_id": identity, "name": tool, "arguments": json.dumps(arguments)},
                          {"type": "function_call_output", "call_id": identity, "output": output}]
            else:
                role, part = ("user", "input_text") if kind == "user" else ("assistant", "output_text")
                items.append({"type": "message", "role": role, "content": [{"type": part, "text": text}]})
        elif dialect == "messages":
            if kind == "call":
                use = {"type": "tool_use", "id": identity, "name": tool, "input": arguments}
                items += [{"role": "assistant", "content": [{"type": "text", "text": text}, use]},
                          {"role": "user", "content": [{"type": "tool_result", "tool_use_id": identity, "content": output}]}]
            else:
                items.append({"role": "user" if kind == "user" else "assistant", "content": text})
        elif kind == "call":
            call = {"id": identity, "type": "function", "function": {"name": tool, "arguments": json.dumps(arguments)}}
            items += [{"role": "assistant", "content": text, "tool_calls": [call]},
                      {"role": "tool", "tool_call_id": identity, "content": output}]
        else:
            items.append({"role": "user" if kind == "user" else "assistant", "content": text})
    schema = {"type": "object", "properties": {"command": {"type": "string"}}}
    if dialect == "responses":
        tools = [{"type": "function", "name": name, "description": describe, "parameters": schema} for name in names]
        return {"model": model, "instructions": system, "tools": tools, "input": items}
    if dialect == "messages":
        tools = [{"name": name, "description": describe, "input_schema": schema} for name in names]
        return {"model": model, "max_tokens": 1000, "system": system, "tools": tools, "messages": items}
    tools = [{"type": "function", "function": {"name": name, "description": describe, "parameters": schema}} for name in names]
    return {"model": model, "tools": tools, "messages": [{"role": "system", "content": system}, *items]}


# Each tells by itself that it was obeyed: it makes an element, sets a variable, opens a dialog, asks another host or hides the page.
PAYLOADS = (
    "<script>window.pwned=1;alert('pwned')</script>",
    "<img src=x onerror=\"window.pwned=1;alert('pwned')\" class=pwned>",
    "\"><svg onload=\"window.pwned=1\" class=pwned></svg>",
    "' onmouseover='window.pwned=1' onfocus='window.pwned=1' autofocus='",
    "</style><style class=pwned>body{display:none}*{background:url(http://evil.example/css)}</style>",
    "</textarea></title></script></main></table></details><b class=pwned>out</b>",
    "<iframe class=pwned src=\"javascript:parent.pwned=1\"></iframe><base href=\"http://evil.example/\">",
    "<a class=pwned href=\"javascript:window.pwned=1\">click</a><form class=pwned action=http://evil.example/>",
    "<link class=pwned rel=stylesheet href=http://evil.example/x.css><meta http-equiv=refresh content=0;url=http://evil.example/>",
    "{{7*7}} ${7*7} <%= 7*7 %> #{7*7} {% raw %} [[7*7]] %3Cscript%3Ealert(1)%3C/script%3E",
    "&lt;script&gt; &#60;script&#62; &quot; &amp;amp; ]]> --> <!-- <![CDATA[",
    "nul \u0000 bell \u0007 escape \u001b[31m rtl \u202e\u2067 ltr \u200e joiner \u200b mark \ufeff end",
)
WORD = "W" * 100_000
MODEL = "<img src=x onerror=window.pwned=1 class=pwned>{{7*7}}"


def hostile():
    """A session whose every text, tool name, model name, session id and error is a payload."""
    everything = "\n".join(PAYLOADS)
    turns = [("user", everything)]
    for n in range(30):
        payload = PAYLOADS[n % len(PAYLOADS)]
        output = WORD if n == 4 else f"{payload}\n" * 25 + everything
        turns.append(("call", f"{payload} {n}", f"{payload[:60]}-{n % 3}", {"command": payload, payload: n}, output))
        if n % 10 == 9:
            turns += [("reply", everything), ("user", f"{payload} {n}")]
    made = body("chat", MODEL, turns, everything, everything)
    header = "\"><script>window.pwned=1</script>{{7*7}}"
    return Session("chat", growing("chat", made, 12), {"x-longhaul-session": header})
