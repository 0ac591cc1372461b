"""Replays sessions through a gateway and looks at its dashboard in Chromium: main.py PROGRAM [--pictures FOLDER] [WORD …]."""

import sys
from pathlib import Path

import checks
import pictures
import sessions
from gateway import Gateway
from playwright.sync_api import sync_playwright
from upstream import Upstream
from watched import CHROMIUM, Watched


class World:
    """A gateway with sessions in it, the provider behind it, and a browser."""

    def __init__(self, program, browser, replayed):
        self.program, self.browser = program, browser
        self.upstream = Upstream()
        self.gateway = Gateway(program, self.upstream)
        self.watched = Watched(browser, self.gateway.url)
        self.sessions = replayed
        for session in self.sessions:
            self.gateway.replay(session)
        # The first of them is looked at most closely.
        titles = {row["title"]: row["name"] for row in self.gateway.ask("/api/sessions")["sessions"]}
        self.name = next(name for title, name in titles.items() if title and title.startswith("Make the server listen"))

    def add_hostile(self):
        known = set(self.gateway.names())
        self.gateway.replay_hostile()
        self.hostile = next(iter(set(self.gateway.names()) - known))

    def closed(self):
        """Another gateway, for which a key is needed."""
        gateway = Gateway(self.program, self.upstream, keys=True)
        return gateway, Watched(self.browser, gateway.url)

    def stop(self):
        self.gateway.stop()
        self.upstream.stop()


def main():
    program, *rest = sys.argv[1:]
    folder = Path(rest[1]) if rest[:1] == ["--pictures"] else None
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox", "--disable-gpu", "--disable-smooth-scrolling"])
        replayed = sessions.made_up() + ([] if folder else sessions.real())
        world = World(program, browser, replayed)
        try:
            if folder:
                pictures.draw(world, folder)
                return 0
            world.gateway.replay_until_compacted(sessions.unlucky())
            sent = world.gateway.sent
            world.add_hostile()
            print(f"{sent} requests of {len(replayed) + 1} sessions were replayed, and one session of payloads", flush=True)
            failed = checks.run(world, rest)
            print(f"{world.watched.requests} requests of pages, none to another host")
        finally:
            world.stop()
            browser.close()
    if failed:
        print(f"{len(failed)} of {len(checks.CHECKS)} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
