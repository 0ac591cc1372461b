"""The clients' packages, by their registries' ordinary clients, into a folder and nowhere else."""
import json
import pathlib
import subprocess
import sys


class Missing(Exception):
    """A package that is not to be had here, and why."""


def run(command, log):
    with open(log, "a") as out:
        done = subprocess.run(command, stdout=out, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL)
    if done.returncode:
        last = pathlib.Path(log).read_text().strip().splitlines()[-1:]
        raise Missing(f"{command[0]} ended with {done.returncode}: {' '.join(last)[:200]} (all of it: {log})")


def npm(client, tools, log):
    folder = tools / "node"
    if version(client, tools) != client.pin:
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "package.json").exists() or (folder / "package.json").write_text('{"private": true}')
        run(["npm", "install", "--prefix", str(folder), "--no-fund", "--no-audit", f"{client.package}@{client.pin}"], log)


def pip(client, tools, log):
    folder = tools / client.package
    if version(client, tools) != client.pin:
        run([sys.executable, "-m", "venv", str(folder)], log)
        run([str(folder / "bin" / "pip"), "install", "-q", f"{client.package}=={client.pin}", *client.beside], log)


def version(client, tools):
    """The version that is installed, or nothing."""
    if client.registry == "npm":
        about = tools / "node" / "node_modules" / client.package / "package.json"
        return json.loads(about.read_text())["version"] if about.exists() else None
    python = tools / client.package / "bin" / "python"
    if not python.exists():
        return None
    ask = f"import importlib.metadata as m; print(m.version({client.package!r}))"
    return subprocess.run([str(python), "-c", ask], capture_output=True, text=True).stdout.strip() or None


def install(client, tools, log):
    try:
        {"npm": npm, "pip": pip}[client.registry](client, tools, log)
    except FileNotFoundError as missing:
        raise Missing(f"{missing.filename} is not on this machine") from missing
