"""`/v1/responses/compact` and what it hands out, with the provider's own SDK as the client."""

import json
import sys

import openai
from openai.types.responses import (CompactedResponse, ResponseCompactionItem, ResponseFunctionToolCall, ResponseInputMessageItem)

from ground import Upstream, gateway, output, strict

MODEL = "gpt-5"


def session(steps):
    items = [{"type": "message", "role": "user", "content": [{"type": "input_text", "text": "Make the build green. Never touch the tests."}]}]
    for n in range(steps):
        items.append({"type": "function_call", "call_id": f"call_{n}", "name": "bash", "arguments": json.dumps({"command": f"make target{n}"})})
        items.append({"type": "function_call_output", "call_id": f"call_{n}", "output": output(n)})
    return items


def says(text):
    return {"type": "message", "role": "user", "content": [{"type": "input_text", "text": text}]}


def as_input(items):
    """What was handed out as it is sent back. The SDK would warn of messages of users, the provider's own as well."""
    return [item.model_dump(exclude_none=True, warnings=False) for item in items]


class Client:
    def __init__(self, url):
        self.responses = openai.OpenAI(base_url=f"{url}/v1", api_key="sk-of-the-test", max_retries=0).responses

    def compact(self, **asks):
        """The answer, each part of which is held against its type. The SDK's type of an output has no messages of users, though the
        provider's own answers begin with them, so that those are held against the type of an input."""
        raw = self.responses.with_raw_response.compact(model=MODEL, **asks)
        document = json.loads(raw.http_response.text)
        users = [item for item in document["output"] if item.get("role") == "user"]
        for item in users:
            strict(ResponseInputMessageItem, json.dumps(item))
        assert document["output"][:len(users)] == users
        strict(CompactedResponse, json.dumps({**document, "output": document["output"][len(users):]}))
        return raw.parse()


def compacts(client, upstream):
    compacted = client.compact(input=[*session(40), says("Which was the last?")], instructions="You are careful.")
    assert compacted.object == "response.compaction" and compacted.created_at > 1_700_000_000 and compacted.usage.total_tokens == 0
    *users, item = compacted.output
    assert isinstance(item, ResponseCompactionItem) and [user.role for user in users] == ["user", "user"]
    assert not upstream.seen, "no model was asked"
    bodies = []
    for window in (compacted.output, [item]):
        # As the provider's guide has it: the output is the next input.
        window = as_input(window)
        response = client.responses.create(model=MODEL, input=[*window, says("Go on.")], store=False)
        assert response.output_text == "I go on."
        bodies.append(upstream.seen[-1][2])
    assert bodies[0] == bodies[1], "the upstream is told the same, whatever the client keeps"
    assert b"[Longhaul checkpoint" in bodies[0] and len(bodies[0]) < 40_000, len(bodies[0])


def keeps_open_calls(client, _):
    *items, result = session(30)
    compacted = client.compact(input=items)
    assert isinstance(compacted.output[-1], ResponseFunctionToolCall)
    window = as_input(compacted.output)
    assert client.responses.create(model=MODEL, input=[*window, result], store=False).output_text == "I go on."


def compacts_again(client, upstream):
    compacted = client.compact(input=session(40))
    window = as_input(compacted.output)
    more = [{**item, "call_id": f"more_{item['call_id']}"} for item in session(30)[1:]]
    again = client.compact(input=[*window, *more])
    window = as_input(again.output)
    client.responses.create(model=MODEL, input=[*window, says("Go on.")], store=False)
    assert upstream.seen[-1][2].count(b"[Longhaul checkpoint") == 1


def refuses(client, _):
    for asks, said in [({"previous_response_id": "resp_1"}, "previous_response_id"), ({}, "input")]:
        try:
            client.compact(**asks)
        except openai.BadRequestError as error:
            assert error.type == "invalid_request_error" and error.body["message"].startswith(said), error
        else:
            raise AssertionError(f"{asks} was taken")


def takes_a_lone_text(client, upstream):
    compacted = client.compact(input="hello")
    window = as_input(compacted.output)
    client.responses.create(model=MODEL, input=window, store=False)
    assert upstream.seen[-1][2].count(b"hello") == 1


def passes(program):
    """An upstream that has the feature gets every byte, and so does the client."""
    usage = {"input_tokens": 1, "input_tokens_details": {"cached_tokens": 0, "cache_write_tokens": 0}, "output_tokens": 1,
             "output_tokens_details": {"reasoning_tokens": 0}, "total_tokens": 2}
    item = {"type": "compaction", "id": "cmp_1", "encrypted_content": "theirs"}
    canned = json.dumps({"id": "resp_1", "object": "response.compaction", "created_at": 1, "output": [item], "usage": usage}, indent=1).encode()
    upstream = Upstream(canned)
    with gateway(program, upstream, "upstreams: { responses: { native: [responses_compact] } }\n") as (url, serves):
        assert serves == ["context_management"], serves
        client = Client(url)
        for ask in (client.responses.with_raw_response.compact, client.responses.with_raw_response.create):
            raw = ask(model=MODEL, input=[{"type": "compaction", "encrypted_content": "theirs"}, says("Hi.")])
            assert raw.http_response.content == canned
            assert upstream.seen[-1][2] == raw.http_response.request.content


def main(program):
    for check in (compacts, keeps_open_calls, compacts_again, refuses, takes_a_lone_text):
        upstream = Upstream()
        with gateway(program, upstream) as (url, _):
            check(Client(url), upstream)
        print(f"ok  responses: {check.__name__}")
    passes(program)
    print("ok  responses: passes")


main(sys.argv[1])
