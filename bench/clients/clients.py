"""The clients, a row each: which package, which model and window, and how it is pointed at a server and started.

No row changes a file of its client's: variables and options only, so that a row is also the recipe for a person.
"""
import dataclasses
import json
import pathlib
import typing

HERE = pathlib.Path(__file__).parent
TASK = "Read all parts of the log in the folder logs, one after the other, and tell me the code word."
KEYS = {"ANTHROPIC_API_KEY": "sk-ant-api03-not-a-key", "OPENAI_API_KEY": "sk-not-a-key"}


@dataclasses.dataclass(frozen=True)
class At:
    """Where a client is started: the server's address, and the folders of its own."""

    url: str
    home: pathlib.Path
    tools: pathlib.Path     # what was installed

    def npm(self, name):
        return str(self.tools / "node" / "node_modules" / ".bin" / name)

    def pip(self, package, name):
        return str(self.tools / package / "bin" / name)


@dataclasses.dataclass(frozen=True)
class Client:
    name: str
    registry: str           # npm or pip
    package: str
    pin: str                # the version that was tried
    model: str
    window: int             # of the scripted model; small enough that the loop does not fit
    command: typing.Callable[[At], list]
    variables: typing.Callable[[At], dict]
    beside: tuple = ()      # packages that it needs and does not name
    farewell: str | None = None


def sdk(package, pin, script, *how, model):
    """A tool loop of ours around a provider's own package."""
    return Client(
        name=" ".join([package, *how]), registry="pip", package=package, pin=pin, model=model, window=32_000,
        command=lambda at: [at.pip(package, "python"), str(HERE / "loops" / script), *how, model, TASK],
        variables=lambda at: {"ANTHROPIC_BASE_URL": at.url, "OPENAI_BASE_URL": f"{at.url}/v1"})


def codex(at):
    server = f'{{name="longhaul",base_url="{at.url}/v1",wire_api="responses",env_key="OPENAI_API_KEY"}}'
    settings = ["model_provider=longhaul", f"model_providers.longhaul={server}", 'model="gpt-6.1-sol"',
                "model_context_window=100000000", "model_auto_compact_token_limit=90000000"]
    options = [option for setting in settings for option in ("-c", setting)]
    return [at.npm("codex"), "exec", "--skip-git-repo-check", "--dangerously-bypass-approvals-and-sandbox", *options, TASK]


def opencode(at):
    providers = {name: {"options": {"baseURL": f"{at.url}/v1"}} for name in ("anthropic", "openai")}
    settings = {"provider": providers, "model": "anthropic/claude-sonnet-4-5", "small_model": "anthropic/claude-haiku-4-5"}
    return {"OPENCODE_CONFIG_CONTENT": json.dumps(settings), "OPENCODE_DISABLE_AUTOCOMPACT": "1", "OPENCODE_DISABLE_PRUNE": "1",
            "OPENCODE_DISABLE_MODELS_FETCH": "1", "OPENCODE_DISABLE_AUTOUPDATE": "1"}


CLIENTS = [
    sdk("anthropic", "2.9.0", "with_anthropic.py", "json", model="claude-sonnet-4-5"),
    sdk("anthropic", "2.9.0", "with_anthropic.py", "stream", model="claude-sonnet-4-5"),
    sdk("openai", "2.54.0", "with_openai.py", "chat", "json", model="gpt-4.1"),
    sdk("openai", "2.54.0", "with_openai.py", "chat", "stream", model="gpt-4.1"),
    sdk("openai", "2.54.0", "with_openai.py", "responses", "json", model="gpt-5.5"),
    sdk("openai", "2.54.0", "with_openai.py", "responses", "stream", model="gpt-5.5"),
    Client(
        name="claude", registry="npm", package="@anthropic-ai/claude-code", pin="2.1.326", model="claude-opus-5-5", window=48_000,
        command=lambda at: [at.npm("claude"), "-p", TASK, "--model", "claude-opus-5-5", "--dangerously-skip-permissions"],
        variables=lambda at: {
            "ANTHROPIC_BASE_URL": at.url, "IS_SANDBOX": "1", "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1", "DISABLE_COMPACT": "1",
            "CLAUDE_CODE_MAX_CONTEXT_TOKENS": "10000000"}),
    Client(
        name="codex", registry="npm", package="@openai/codex", pin="0.169.0", model="gpt-6.1-sol", window=48_000, command=codex,
        variables=lambda at: {"CODEX_HOME": str(at.home)}),
    Client(
        name="opencode", registry="npm", package="opencode-ai", pin="1.18.33", model="claude-sonnet-4-5", window=32_000,
        command=lambda at: [at.npm("opencode"), "run", TASK], variables=opencode),
    Client(
        name="pi", registry="npm", package="@mariozechner/pi-coding-agent", pin="0.73.1", model="claude-sonnet-4-5", window=32_000,
        command=lambda at: [at.npm("pi"), "-e", str(HERE / "pi.js"), "--model", "anthropic/claude-sonnet-4-5", "-p", TASK],
        variables=lambda at: {"LONGHAUL_URL": at.url, "PI_OFFLINE": "1"}),
    Client(
        name="mini-swe-agent", registry="pip", package="mini-swe-agent", pin="2.4.6", beside=("mcp",), model="gpt-4.1", window=32_000,
        command=lambda at: [at.pip("mini-swe-agent", "mini"), "-m", "openai/gpt-4.1", "-y", "--exit-immediately", "-t", TASK],
        variables=lambda at: {
            "OPENAI_API_BASE": f"{at.url}/v1", "MSWEA_CONFIGURED": "true", "MSWEA_COST_TRACKING": "ignore_errors",
            "MSWEA_MODEL_RETRY_STOP_AFTER_ATTEMPT": "2"},
        farewell="echo COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT; echo {word}"),
    Client(
        name="hermes", registry="pip", package="hermes-agent", pin="0.19.0", beside=("anthropic==0.87.0",), model="claude-opus-4-5",
        window=48_000,
        command=lambda at: [at.pip("hermes-agent", "hermes"), "-z", TASK, "--provider", "anthropic", "-m", "claude-opus-4-5", "--yolo"],
        variables=lambda at: {"ANTHROPIC_BASE_URL": at.url}),
]
