"""What the three dialects share: a request as the scripted model sees it, and a reply as it means it.

Each dialect is a module with `read(body)`, what it answers (`whole`, or `events` of a stream), and how it refuses (`too_long`,
`mispaired`).
"""
import dataclasses
import json


@dataclasses.dataclass
class Seen:
    """One request: the tools it offers, the prompt in the provider's order, and how its calls and results pair."""

    tools: dict                # name → JSON Schema of the arguments; nothing for a tool that takes free text
    prompt: list               # everything that is cached, in order, as one canonical text a piece
    calls: list                # rounds of call ids, in order: [{"a", "b"}, {"c"}]
    orphans: list              # what a provider would refuse about them, in words
    schema: dict | None = None # the shape that an answer must have, where one is asked for
    several: bool = True       # more than one call in a turn is welcome

    @property
    def tokens(self):
        """Roughly: four characters a token."""
        return sum(map(len, self.prompt)) // 4


@dataclasses.dataclass
class Call:
    id: str
    name: str
    arguments: dict | str


@dataclasses.dataclass
class Reply:
    """What the model says: some words, and calls or none."""

    id: str
    text: str
    calls: list

    @property
    def tokens(self):
        return (len(self.text) + sum(len(json.dumps(call.arguments)) for call in self.calls)) // 4 + 1


@dataclasses.dataclass
class Usage:
    read: int      # tokens of the prompt that came from the cache
    fresh: int     # tokens of the prompt that did not
    output: int


# Marks move from request to request and change no prompt; signed and encrypted reasoning is no text.
UNREAD = {"cache_control", "signature", "encrypted_content"}


def canonical(value):
    """A piece of a prompt as one text, without what a provider does not read as prompt: a text is the same as a list of one."""
    def clean(value):
        if isinstance(value, dict):
            return {key: clean(inner) for key, inner in sorted(value.items()) if key not in UNREAD}
        return [clean(inner) for inner in value] if isinstance(value, list) else value
    if isinstance(value, dict) and isinstance(value.get("content"), str):
        value = {**value, "content": [{"type": "text", "text": value["content"]}]}
    return json.dumps(clean(value), ensure_ascii=False)


def pieces(text, size=24):
    """A text as a stream would bring it."""
    return [text[at:at + size] for at in range(0, len(text), size)] or [""]


def sse(data, event=None):
    """One event of a stream. Only the newer dialects name theirs."""
    name = f"event: {event}\n" if event else ""
    return f"{name}data: {data if isinstance(data, str) else json.dumps(data)}\n\n".encode()


def unpaired(rounds):
    """What does not pair in a list of (ids called, ids answered right after): one line each."""
    lines = []
    for called, answered in rounds:
        lines += [f"call {id} without its result" for id in called if id not in answered]
        lines += [f"result {id} without its call" for id in answered if id not in called]
        lines += [f"result {id} twice" for id in set(answered) if answered.count(id) > 1]
    return lines
