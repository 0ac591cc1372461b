"""The agents of the scenarios, a row each: how a person starts one, goes on with a session, and works with it in a terminal."""
import dataclasses
import json
import typing

import clients


@dataclasses.dataclass(frozen=True)
class Program:
    name: str
    client: str                     # the row of clients.py that says which package it is
    model: str
    window: int                     # of the scripted model, where the session is to be larger than that
    natural: int                    # the model's own window, as the agent knows it
    ask: typing.Callable            # (program, words) → a call that does one task and ends
    again: typing.Callable          # the same, in the session before
    terminal: typing.Callable       # (program) → a call for a terminal
    ready: str                      # what the screen shows when it can be typed on
    leave: tuple                    # keys
    prepare: typing.Callable        # (home, folder) → files that a person has after the first start
    variables: dict
    direct: typing.Callable         # (url, home) → variables, arguments: how it finds the model without a gateway
    subagents: bool = False
    menu: str | None = None         # the command of its menu that compacts


def claude_home(home, folder):
    key = clients.KEYS["ANTHROPIC_API_KEY"][-20:]
    known = {"hasTrustDialogAccepted": True, "hasCompletedProjectOnboarding": True}
    (home / ".claude.json").write_text(json.dumps({
        "hasCompletedOnboarding": True, "theme": "dark", "bypassPermissionsModeAccepted": True,
        "customApiKeyResponses": {"approved": [key], "rejected": []}, "projects": {str(folder): known}}))


def codex_home(home, folder):
    (home / "config.toml").write_text(f'check_for_update_on_startup = false\n[projects."{folder}"]\ntrust_level = "trusted"\n'
                                      '[notice.model_migrations]\n"gpt-5.5" = "gpt-6-sol"\n')
    (home / "auth.json").write_text(json.dumps({"OPENAI_API_KEY": clients.KEYS["OPENAI_API_KEY"]}))


def nothing(home, folder):
    """It asks nothing at its first start."""


def pi_direct(url, home):
    extension = home / "direct.js"
    extension.write_text(f'export default function (pi) {{ pi.registerProvider("anthropic", {{ baseUrl: "{url}" }}); }}\n')
    return {}, ["-e", str(extension)]


def opencode_direct(url, home):
    return {"OPENCODE_CONFIG_CONTENT": json.dumps({"provider": {"anthropic": {"options": {"baseURL": f"{url}/v1"}}}})}, []


def claude(model, **more):
    common = ["--model", model, "--dangerously-skip-permissions"]
    return Program(
        name=f"claude, {model}", client="claude", model=model, window=48_000,
        ask=lambda program, words: [program, "-p", words, *common],
        again=lambda program, words: [program, "-c", "-p", words, *common],
        terminal=lambda program: [program, *common], ready="bypass permissions on", leave=("C-c", "C-c"), prepare=claude_home,
        variables={"IS_SANDBOX": "1", "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1"},
        direct=lambda url, home: ({"ANTHROPIC_BASE_URL": url}, []), subagents=True, menu="/longhaul:compress", **more)


CODEX = ["--dangerously-bypass-approvals-and-sandbox", "-c", 'model="gpt-5.5"']
ANTHROPIC = "anthropic/claude-haiku-4-5"

PROGRAMS = [
    claude("claude-haiku-4-5", natural=200_000),
    claude("claude-opus-5-5", natural=1_000_000),
    Program(
        name="codex", client="codex", model="gpt-5.5", window=48_000, natural=272_000,
        ask=lambda program, words: [program, "exec", "--skip-git-repo-check", *CODEX, words],
        again=lambda program, words: [program, "exec", "--skip-git-repo-check", *CODEX, "resume", "--last", words],
        terminal=lambda program: [program, *CODEX], ready="Ask Codex to do anything", leave=("C-c", "C-c"), prepare=codex_home,
        variables={}, direct=lambda url, home: ({}, ["-c", f'openai_base_url="{url}/v1"'])),
    Program(
        name="opencode", client="opencode", model="claude-haiku-4-5", window=32_000, natural=200_000,
        ask=lambda program, words: [program, "run", "-m", ANTHROPIC, words],
        again=lambda program, words: [program, "run", "-c", "-m", ANTHROPIC, words],
        terminal=lambda program: [program, "-m", ANTHROPIC], ready="Ask anything", leave=("C-c", "C-c"), prepare=nothing,
        variables={"OPENCODE_DISABLE_MODELS_FETCH": "1", "OPENCODE_DISABLE_AUTOUPDATE": "1"}, direct=opencode_direct, subagents=True,
        menu="/longhaul:compress"),
    Program(
        name="pi", client="pi", model="claude-haiku-4-5", window=32_000, natural=200_000,
        ask=lambda program, words: [program, "--model", ANTHROPIC, "-p", words],
        again=lambda program, words: [program, "-c", "--model", ANTHROPIC, "-p", words],
        terminal=lambda program: [program, "--model", ANTHROPIC], ready="claude-haiku-4-5", leave=("C-c", "C-d"), prepare=nothing,
        variables={"PI_OFFLINE": "1"}, direct=pi_direct, menu="/longhaul:compress"),
]
