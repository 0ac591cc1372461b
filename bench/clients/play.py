"""What the scripted model does with one client: a tool call a turn through a folder of logs, then a last word.

The folder has one file a step. Every fifth step takes two files at once, where the client allows it. The play takes the tools as the client offers them, calls one that runs a command or reads a file,
and goes on by its own count of steps, not by what the transcript shows: most of that may have been folded into a checkpoint. Where the
gateway offers its recall tools, the model uses them now and then: alone, and beside a call of the client's.
"""
import dataclasses
import json
import pathlib
import random
import re

from dialects import Call, Reply, Usage

CHECKPOINT = "[Longhaul checkpoint"
# How the gateway's requests for a summary of the session end, and what the model writes. All of it is true of every session here.
SUMMARY_REQUEST = "Begin with the first heading."
SUMMARY = """## Active Task
- Read the parts of the log one after the other, until the last one is read.

## Completed Actions
1. READ the first parts of the log in the folder logs — each was printed in full

## Remaining Work
- The later parts of the log are not read yet.
"""
WORDS = "anchor basin cedar delta ember fjord grove harbor inlet jetty kelp lagoon meadow north orchard pier quarry ridge spruce tide".split()

RUNS = re.compile(r"^(bash|shell|shell_command|exec_command|terminal|run_command|execute_command|run_shell_command)$", re.I)
READS = re.compile(r"^(read|read_file)$", re.I)
# Codex' newer models have one tool that takes a program.
FREE = "exec"
# The tools of the gateway, of which the client must see nothing.
RECALL = "recall_search"
MOST_RECALLS = 4
# How tools call the argument that matters; the rest of what they require is filled by its type.
COMMAND = ("command", "cmd")
PATH = ("file_path", "filePath", "path", "absolute_path")
BLANK = {"string": "the next part", "boolean": False, "integer": 1, "number": 1, "array": [], "object": {}}


def part(step):
    return f"part-{step:02}.txt"


def log(step, size):
    """So many characters of a log that no other step has, the same in every run."""
    chance = random.Random(step)
    lines, length = [], 0
    while length < size:
        what = " ".join(chance.choice(WORDS) for _ in range(chance.randint(4, 12)))
        lines.append(f"{step:02}:{len(lines):04} {chance.choice(('INFO', 'INFO', 'WARN', 'DEBUG'))} src/{chance.choice(WORDS)}.c {what}")
        length += len(lines[-1]) + 1
    return "\n".join(lines) + "\n"


def lay_out(folder, steps, size):
    """The folder that the client works in."""
    logs = pathlib.Path(folder, "logs")
    logs.mkdir(parents=True, exist_ok=True)
    for step in range(1, steps + 1):
        (logs / part(step)).write_text(log(step, size))


def blank(schema):
    """A value that a JSON Schema accepts, for what nobody cares about."""
    kind = schema.get("type")
    kind = kind[0] if isinstance(kind, list) else kind
    if schema.get("enum"):
        return schema["enum"][0]
    if kind == "object":
        return {name: blank(schema.get("properties", {}).get(name, {})) for name in schema.get("required", [])}
    return BLANK.get(kind, "the next part")


def arguments(schema, names, value):
    """The arguments of a call whose one argument of these names has this value, or nothing where it has no such argument."""
    if schema is None:
        return None
    known = schema.get("properties", {})
    name = next((name for name in names if name in known), None)
    if name is None:
        return None
    listed = known[name].get("type") == "array"
    return {**blank({**schema, "type": "object"}), name: ["bash", "-lc", value] if listed else value}


@dataclasses.dataclass
class Request:
    """What is kept of a request, for the table and for whoever wonders."""

    path: str
    main: bool            # belongs to the tool loop; all else is a side request
    stream: bool
    model: str
    tokens: int
    kept: int             # tokens of the prompt that are the same as in the request of the loop before
    before: int           # tokens of that one
    checkpoint: bool
    orphans: list
    refused: str | None = None
    output: int = 0       # tokens of the reply
    summary: bool = False # the client compacts by itself, and asks for a summary
    background: bool = False # the gateway asks for a summary of the session
    kept_words: bool = True # what a person said so far is in the prompt

    @property
    def rewritten(self):
        """The prompt is no extension of the one before."""
        return self.main and self.kept < self.before


class Play:
    """One client's session, from its first request to the last word."""

    def __init__(self, folder, window, steps, word, farewell=None):
        """A farewell is a command with which the client wants to be ended, for those that a plain answer does not end."""
        self.folder, self.window, self.steps, self.word = pathlib.Path(folder), window, steps, word
        self.farewell = farewell
        self.made = 0
        self.replies = 0
        self.recalls = 0
        self.recalled_at = 0
        self.requests = []
        self.last = []

    def fitting(self, tools, step):
        """A call for this step: commands and files in turns, where the client offers both."""
        path = self.folder / "logs" / part(step)
        ways = [(RUNS, COMMAND, f"cat {path}"), (READS, PATH, str(path))]
        if FREE in tools and tools[FREE] is None:
            return Call(self.id(step), FREE, f"const run = await tools.exec_command({{cmd: {json.dumps(f'cat {path}')}}});\ntext(run.output);")
        for pattern, names, value in ways if step % 2 else reversed(ways):
            for name in filter(pattern.match, tools):
                given = arguments(tools[name], names, value)
                if given is not None:
                    return Call(self.id(step), name, given)
        return None

    def id(self, step):
        return f"call_{self.replies:04}_{step:02}"

    def belongs(self, seen):
        return self.fitting(seen.tools, 1) is not None

    def note(self, path, body, seen):
        """Records the request, and says how much of it a prompt cache would have read."""
        background = self.is_background(seen)
        main = self.belongs(seen) and not background
        kept = 0
        if main or background:
            for old, new in zip(self.before(seen), seen.prompt):
                if old != new:
                    break
                kept += len(new)
        request = Request(
            path=path, main=main, stream=bool(body.get("stream")), model=str(body.get("model")), tokens=seen.tokens, kept=kept // 4,
            before=sum(map(len, self.before(seen))) // 4 if main else 0, background=background, checkpoint=any(CHECKPOINT in piece for piece in seen.prompt),
            orphans=seen.orphans)
        self.requests.append(request)
        if main:
            self.remember(seen)
        return request

    def before(self, seen):
        """The prompt of the request before, of the same conversation."""
        return self.last

    def remember(self, seen):
        self.last = seen.prompt

    @staticmethod
    def is_background(seen):
        """The gateway asks for a summary of the session."""
        return any(SUMMARY_REQUEST in piece for piece in seen.prompt[-1:])

    def reply(self, seen):
        """The next step of the loop, the last word, or a plain answer to a side request."""
        self.replies += 1
        id = f"{self.replies:06}"
        if self.is_background(seen):
            return Reply(id, SUMMARY, [])
        if not self.belongs(seen):
            return Reply(id, self.aside(seen), [])
        if self.made >= self.steps:
            return Reply(id, f"All {self.steps} parts are read. The code word is {self.word}.", self.ending(seen))
        back = self.back(seen)
        if back and self.recalls % 2:
            return Reply(id, "Something from before is needed first.", [back])
        first = self.made + 1
        self.made = min(first + 1, self.steps) if seen.several and first % 5 == 0 else first
        calls = [self.fitting(seen.tools, step) for step in range(first, self.made + 1)]
        return Reply(id, f"Part {self.made} of {self.steps} comes next.", [*calls, back] if back and seen.several else calls)

    def back(self, seen):
        """A call that reaches back, at most once a step: the first stands alone, the next beside the client's, and so on."""
        if RECALL not in seen.tools or self.recalls >= MOST_RECALLS or self.recalled_at == self.made:
            return None
        self.recalls, self.recalled_at = self.recalls + 1, self.made
        return Call(f"call_{self.replies:04}_back", RECALL, {"query": f"{part(1)} {WORDS[self.recalls]}"})

    def ending(self, seen):
        if self.farewell is None:
            return []
        name = next(filter(RUNS.match, seen.tools))
        return [Call(self.id(self.steps + 1), name, arguments(seen.tools[name], COMMAND, self.farewell.format(word=self.word)))]

    def aside(self, seen):
        return json.dumps(blank(seen.schema)) if seen.schema else "Reading the logs"

    @staticmethod
    def usage(request, reply):
        request.output = reply.tokens
        return Usage(read=request.kept, fresh=request.tokens - request.kept, output=reply.tokens)
