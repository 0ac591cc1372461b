"""The scripts of the scenarios: the tool loop of `play.py` with a step that takes its time, one that is given to a subagent, and an ear
for what people said."""
import json

import clients
from dialects import Call, Reply
from play import COMMAND, FREE, RUNS, Play, arguments, part

# How the clients ask for a summary when they compact by themselves; Codex has an item for it.
SUMMARIES = ("Your task is to create a detailed summary", "CONTEXT CHECKPOINT COMPACTION", '"compaction_trigger"',
             "Create a new anchored summary", "You are a context summarization assistant")
DELEGATES = ("Agent", "Task", "task")
DELEGATED = "Count the wheels of the harbor crane."
REPORT = "The subagent's report: the crane has nine wheels, and wheel four is the spare one."
SUMMARY = "<summary>The parts are read one after the other. " + "Nothing else has happened so far. " * 40 + "</summary>"
SLOW_SECONDS = 6


class Script(Play):
    """One session. `slow` and `delegate` are steps; `said` are the words of a person: once they are
    in a prompt, every later one must hold them."""

    def __init__(self, *args, slow=(), delegate=(), **more):
        super().__init__(*args, **more)
        self.slow, self.delegate = set(slow), set(delegate)
        self.said = [clients.TASK]
        self.heard = set()
        self.summaries = 0
        self.delegated = 0
        self.threads = {}

    def thread(self, seen):
        """A subagent's conversation has its task and not the person's."""
        text = "".join(seen.prompt)
        return "subagent" if DELEGATED in text and clients.TASK not in text else "main"

    def before(self, seen):
        return self.threads.get(self.thread(seen), [])

    def remember(self, seen):
        self.threads[self.thread(seen)] = seen.prompt

    def is_summary(self, seen):
        ends = seen.prompt[:1] + seen.prompt[-1:]
        return any(sign in piece for sign in SUMMARIES for piece in ends)

    def note(self, path, body, seen):
        request = super().note(path, body, seen)
        request.summary = self.is_summary(seen)
        text = "".join(seen.prompt)
        if request.main and not request.summary and self.thread(seen) == "main":
            # In a prompt the words stand as JSON has them.
            here = {words for words in [*self.said, REPORT] if words in text or json.dumps(words)[1:-1] in text}
            request.kept_words = self.heard <= here
            self.heard |= here
        return request

    def unheard(self):
        """What was said and never reached the model."""
        return [words for words in [*self.said, *([REPORT] if self.delegate else [])] if words not in self.heard]

    def reply(self, seen):
        if self.is_summary(seen):
            self.replies += 1
            self.summaries += 1
            return Reply(f"{self.replies:06}", SUMMARY, [])
        if self.belongs(seen) and self.thread(seen) == "subagent":
            self.replies += 1
            self.delegated += 1
            looks = [] if self.delegated % 3 == 0 else [self.fitting(seen.tools, 1)]
            return Reply(f"{self.replies:06}", REPORT if not looks else "The crane is looked at.", looks)
        return super().reply(seen)

    def fitting(self, tools, step):
        """The call for a step: a slow one prints its part and takes its time; one that is given away is for a subagent."""
        if step in self.slow:
            line = f"cat {self.folder / 'logs' / part(step)}; sleep {SLOW_SECONDS}"
            if FREE in tools and tools[FREE] is None:
                return Call(self.id(step), FREE, f"const run = await tools.exec_command({{cmd: {json.dumps(line)}, yield_time_ms: 20000}});\ntext(run.output);")
            name = next(filter(RUNS.match, tools))
            return Call(self.id(step), name, arguments(tools[name], COMMAND, line))
        name = next((name for name in DELEGATES if name in tools), None) if step in self.delegate else None
        if name:
            return Call(self.id(step), name, {"description": "count the wheels", "prompt": DELEGATED, "subagent_type": self.kind(tools[name])})
        return super().fitting(tools, step)

    @staticmethod
    def kind(schema):
        """Both clients with subagents have a general one, which they call differently."""
        return "general-purpose" if "run_in_background" in schema.get("properties", {}) else "general"
