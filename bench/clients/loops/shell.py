"""The tools that both loops offer, and what a call of one gives."""
import pathlib
import subprocess
import sys

SYSTEM = "You read log files with the tools you have, one after the other, and say the code word at the end."
TURNS = 60

TOOLS = {
    "bash": ("Runs a command.", "command", lambda command: subprocess.run(
        ["bash", "-c", command], capture_output=True, text=True, timeout=30).stdout),
    "read_file": ("Reads a file.", "path", lambda path: pathlib.Path(path).read_text()),
}


def schema(argument):
    return {"type": "object", "properties": {argument: {"type": "string"}}, "required": [argument]}


def run(name, given):
    _, argument, act = TOOLS[name]
    return act(given[argument])


def note(headers):
    """What the gateway said about an answer, on standard error for whoever reads the log."""
    print(headers.get("x-longhaul-action", "no action"), headers.get("x-longhaul-tokens", ""), file=sys.stderr)
