"""A program in a terminal that nobody looks at (tmux): what a person would type, and what the screen shows."""
import os
import shlex
import subprocess
import time
import uuid

COLUMNS, ROWS = 160, 50
PAUSE = 0.1


class Terminal:
    """One program in a terminal of its own, from its start to `close`."""

    def __init__(self, command, folder, variables):
        self.socket = f"longhaul-{uuid.uuid4().hex[:12]}"
        clean = ["env", "-i", *(f"{name}={value}" for name, value in variables.items()), "TERM=xterm-256color"]
        line = shlex.join([*clean, *map(str, command)])
        self.tmux("-f", os.devnull, "new-session", "-d", "-x", str(COLUMNS), "-y", str(ROWS), "-c", str(folder), line,
                  ";", "set-option", "-g", "remain-on-exit", "on")

    def tmux(self, *words, check=True):
        done = subprocess.run(["tmux", "-L", self.socket, *words], capture_output=True, text=True)
        if check and done.returncode:
            raise OSError(f"tmux {words[0]}: {done.stderr.strip()}")
        return done.stdout

    def type(self, text):
        """Types the text as it is, and nothing else: no key of it is taken for a name."""
        self.tmux("send-keys", "-l", text)

    def press(self, *keys):
        """Presses keys by tmux' names: Enter, Escape, C-c."""
        self.tmux("send-keys", *keys)

    def enter(self, text):
        """A line as a person enters it: programs take a burst of characters with a line end for something that was pasted."""
        self.type(text)
        time.sleep(1)
        self.press("Enter")

    def screen(self):
        return self.tmux("capture-pane", "-p")

    def history(self):
        """The screen and everything that has left it at the top."""
        return self.tmux("capture-pane", "-p", "-S", "-")

    def ended(self):
        """The exit code of a program that has ended, or nothing."""
        dead, code = self.tmux("display-message", "-p", "#{pane_dead} #{pane_dead_status}").rstrip("\n").split(" ")
        return int(code or 0) if dead == "1" else None

    def wait(self, is_so, limit):
        """Waits until something is so, for so many seconds at most, and says whether it came to be."""
        end = time.monotonic() + limit
        while time.monotonic() < end:
            if is_so():
                return True
            time.sleep(PAUSE)
        return bool(is_so())

    def shows(self, text, limit):
        return self.wait(lambda: text in self.screen(), limit)

    def close(self):
        self.tmux("kill-server", check=False)
