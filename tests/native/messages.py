"""`context_management` and `compaction` blocks, with the provider's own SDK as the client."""

import json
import sys

import anthropic
from anthropic.types.beta import (BetaClearThinking20251015EditResponse, BetaClearToolUses20250919EditResponse, BetaCompactionBlock,
                                  BetaMessage, BetaMessageTokensCount, BetaRawMessageStreamEvent, BetaTextBlock)

from ground import Upstream, gateway, output, strict

MODEL = "claude-sonnet-5"
BETAS = ["context-management-2025-06-27", "compact-2026-01-12"]
TOOLS = [{"name": "bash", "description": "Runs a command.", "input_schema": {"type": "object", "properties": {}}}]


def session(steps, thinking=False):
    messages = [{"role": "user", "content": "Make the build green. Never touch the tests."}]
    for n in range(steps):
        thought = [{"type": "thinking", "thinking": f"about {n}", "signature": f"sig{n}"}] if thinking else []
        call = {"type": "tool_use", "id": f"toolu_{n}", "name": "bash", "input": {"command": f"make target{n}"}}
        messages.append({"role": "assistant", "content": [*thought, {"type": "text", "text": f"Target {n}."}, call]})
        messages.append({"role": "user", "content": [{"type": "tool_result", "tool_use_id": f"toolu_{n}", "content": output(n)}]})
        if thinking:
            messages.append({"role": "assistant", "content": "Done so far."})
            messages.append({"role": "user", "content": f"And number {n}?"})
    return messages


class Client:
    def __init__(self, url):
        self.beta = anthropic.Anthropic(base_url=url, api_key="sk-of-the-test", max_retries=0).beta.messages

    def asks(self, messages, edits, **more):
        return dict(model=MODEL, max_tokens=1000, tools=TOOLS, messages=messages, betas=[*BETAS, "other-2027-01-01"],
                    context_management={"edits": edits}, **more)

    def whole(self, messages, edits):
        raw = self.beta.with_raw_response.create(**self.asks(messages, edits))
        strict(BetaMessage, raw.http_response.text)
        return raw.parse()

    def streamed(self, messages, edits):
        """The same from a stream, as the SDK puts it together; each of its events is held against its type, too."""
        with self.beta.with_streaming_response.create(**self.asks(messages, edits, stream=True)) as raw:
            for line in raw.iter_lines():
                if line.startswith("data: "):
                    strict(BetaRawMessageStreamEvent, line.removeprefix("data: "))
        with self.beta.stream(**self.asks(messages, edits)) as stream:
            return stream.get_final_message()


def clears_tools(client, upstream):
    edit = {"type": "clear_tool_uses_20250919", "trigger": {"type": "input_tokens", "value": 5000}, "keep": {"type": "tool_uses", "value": 3},
            "clear_at_least": {"type": "input_tokens", "value": 100}, "exclude_tools": ["read"], "clear_tool_inputs": True}
    for ask in (client.whole, client.streamed):
        message = ask(session(20), [edit])
        (applied,) = message.context_management.applied_edits
        assert isinstance(applied, BetaClearToolUses20250919EditResponse), applied
        assert applied.cleared_tool_uses >= 10 and applied.cleared_input_tokens > 5000, applied
        assert [block.text for block in message.content] == ["I go on."]
        sent = json.dumps(upstream.last())
        assert sent.count("[cleared to make room") == applied.cleared_tool_uses
        assert upstream.seen[-1][1]["anthropic-beta"] == "other-2027-01-01"
        assert ask(session(1), [edit]).context_management.applied_edits == []


def clears_thinking(client, upstream):
    edit = {"type": "clear_thinking_20251015", "keep": {"type": "thinking_turns", "value": 2}}
    for ask in (client.whole, client.streamed):
        (applied,) = ask(session(6, thinking=True), [edit]).context_management.applied_edits
        assert isinstance(applied, BetaClearThinking20251015EditResponse) and applied.cleared_thinking_turns == 4, applied
        assert json.dumps(upstream.last()).count('"thinking"') == 2 * 2
        for keep in ("all", {"type": "all"}):
            assert ask(session(6, thinking=True), [{**edit, "keep": keep}]).context_management.applied_edits == []


def compacts(client, upstream):
    edit = {"type": "compact_20260112", "trigger": {"type": "input_tokens", "value": 12000}, "instructions": "Keep the errors."}
    for ask in (client.whole, client.streamed):
        messages = session(40)
        message = ask(messages, [edit])
        block, text = message.content
        assert isinstance(block, BetaCompactionBlock) and block.content and block.encrypted_content
        assert isinstance(text, BetaTextBlock) and text.text == "I go on." and message.stop_reason == "end_turn"
        assert [part.type for part in message.usage.iterations] == ["compaction", "message"]
        assert message.usage.iterations[1].output_tokens == message.usage.output_tokens == 7
        messages += [{"role": "assistant", "content": message.content}, {"role": "user", "content": "Go on."}]
        bodies = []
        for history in (messages, messages[-2:]):
            later = ask(history, [edit])
            assert [block.type for block in later.content] == ["text"]
            bodies.append(upstream.seen[-1][2])
        assert bodies[0] == bodies[1], "the upstream is told the same, whatever the client keeps"
        assert b"[Longhaul checkpoint" in bodies[0] and len(bodies[0]) < 40_000, len(bodies[0])


def pauses(client, upstream):
    edit = {"type": "compact_20260112", "trigger": {"type": "input_tokens", "value": 12000}, "pause_after_compaction": True}
    for ask in (client.whole, client.streamed):
        messages, asked = session(40), len(upstream.seen)
        message = ask(messages, [edit])
        assert message.stop_reason == "compaction" and [block.type for block in message.content] == ["compaction"]
        assert [part.type for part in message.usage.iterations] == ["compaction"] and len(upstream.seen) == asked
        kept = [{"role": "assistant", "content": message.content}, *messages[-2:]]
        assert ask(kept, [edit]).stop_reason == "end_turn"
        assert json.dumps(upstream.last()).count("toolu_39") == 2, "what the client keeps is said once"


def counts(client, _):
    edit = {"type": "clear_tool_uses_20250919", "trigger": {"type": "tool_uses", "value": 4}}
    asks = client.asks(session(20), [edit])
    del asks["max_tokens"]
    raw = client.beta.with_raw_response.count_tokens(**asks)
    strict(BetaMessageTokensCount, raw.http_response.text)
    counted = raw.parse()
    assert counted.context_management.original_input_tokens > 2 * counted.input_tokens, counted


def refuses(client, _):
    try:
        client.whole(session(1), [{"type": "clear_dreams_20270101"}])
    except anthropic.BadRequestError as error:
        assert error.body["error"]["type"] == "invalid_request_error" and "clear_dreams_20270101" in error.message, error
    else:
        raise AssertionError("an edit that nobody knows was taken")


def passes(program):
    """An upstream that has the feature gets every byte, and so does the client."""
    message = {"id": "msg_1", "type": "message", "role": "assistant", "model": MODEL, "stop_reason": "end_turn", "stop_sequence": None,
               "content": [{"type": "compaction", "content": "Theirs.", "encrypted_content": "x"}, {"type": "text", "text": "Hello."}],
               "usage": {"input_tokens": 1, "output_tokens": 1}, "context_management": {"applied_edits": []}}
    canned = json.dumps(message, indent=1).encode()
    upstream = Upstream(canned)
    with gateway(program, upstream, "upstreams: { messages: { native: [context_management] } }\n") as (url, serves):
        assert serves == ["responses_compact"], serves
        client = Client(url)
        messages = [{"role": "assistant", "content": [{"type": "compaction", "content": "Theirs."}]}, {"role": "user", "content": "Hi."}]
        asks = client.asks(messages, [{"type": "compact_20260112"}])
        raw = client.beta.with_raw_response.create(**asks)
        assert raw.http_response.content == canned
        assert upstream.seen[-1][2] == raw.http_response.request.content
        assert upstream.seen[-1][1]["anthropic-beta"] == ",".join(asks["betas"])


def main(program):
    upstream = Upstream()
    with gateway(program, upstream) as (url, serves):
        assert serves == ["context_management", "responses_compact"], serves
        for check in (clears_tools, clears_thinking, compacts, pauses, counts, refuses):
            check(Client(url), upstream)
            print(f"ok  messages: {check.__name__}")
    passes(program)
    print("ok  messages: passes")


main(sys.argv[1])
