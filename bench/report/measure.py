"""Measures the page of a session of a million tokens: how long it takes to make, how large it is, and how it opens and scrolls.

    python3 -m venv venv && venv/bin/pip install playwright
    venv/bin/python bench/report/measure.py target/release/longhaul "$LONGHAUL_SHARED" /usr/bin/chromium

The session is made of the corpus: the same agent's sessions one behind the other, with new names for the calls, until the binary counts a
million tokens. It is written to a temporary folder, and so is the page.
"""

import json, subprocess, sys, tempfile, time
from pathlib import Path

from playwright.sync_api import sync_playwright

BINARY, SHARED, CHROMIUM = sys.argv[1], Path(sys.argv[2]), sys.argv[3]
TOKENS = 1_000_000


def session():
    parts = [SHARED / "corpus" / name for name in ("openhands-swebench-202k.chat.json", "mini-swe-django-303k.chat.json")]
    bodies = [json.loads(part.read_text()) for part in parts]
    whole, number = dict(bodies[0], messages=list(bodies[0]["messages"])), 0
    while True:
        text = json.dumps(whole)
        counted = json.loads(subprocess.run([BINARY, "tokens", "-", "--json"], input=text, capture_output=True, text=True, check=True).stdout)
        if counted["total"] >= TOKENS:
            return text, counted["total"], len(whole["messages"])
        number += 1
        for message in bodies[number % 2]["messages"]:
            if message["role"] == "system":
                continue
            again = json.loads(json.dumps(message))
            for call in again.get("tool_calls") or []:
                call["id"] += f"-{number}"
            if "tool_call_id" in again:
                again["tool_call_id"] += f"-{number}"
            whole["messages"].append(again)


# Tasks over 50 ms block whoever scrolls; frames say how it felt.
WATCH = """
window.long = []; window.frames_at = [];
new PerformanceObserver(list => list.getEntries().forEach(e => window.long.push(e.duration))).observe({entryTypes: ['longtask'], buffered: true});
"""
SCROLL = """
async () => {
  const frames = []; let last = performance.now(); const height = document.documentElement.scrollHeight;
  window.long.length = 0;
  for (let at = 0; at < 300; at++) {
    window.scrollTo(0, height * at / 300);
    await new Promise(done => requestAnimationFrame(done));
    const now = performance.now(); frames.push(now - last); last = now;
  }
  frames.sort((a, b) => a - b);
  return {frames: frames.length, median: frames[150], p95: frames[285], worst: frames[299], long_tasks: window.long.length, longest_task: Math.max(0, ...window.long), height};
}
"""
WHEEL = """
async () => {
  const frames = []; let last = performance.now(); window.long.length = 0; window.scrollTo(0, 0);
  for (let at = 0; at < 300; at++) {
    window.scrollBy(0, 120);
    await new Promise(done => requestAnimationFrame(done));
    const now = performance.now(); frames.push(now - last); last = now;
  }
  frames.sort((a, b) => a - b);
  return {frames: frames.length, median: frames[150], p95: frames[285], worst: frames[299], long_tasks: window.long.length, longest_task: Math.max(0, ...window.long)};
}
"""


def rounded(value):
    return {key: round(number, 1) for key, number in value.items()}


with tempfile.TemporaryDirectory() as folder:
    body, page = Path(folder) / "session.json", Path(folder) / "page.html"
    text, tokens, messages = session()
    body.write_text(text)
    start = time.monotonic()
    made = subprocess.run([BINARY, "report", body, "-o", page, "--model", "claude-sonnet-4-5", "--context-length", "1M"], capture_output=True, text=True, check=True)
    took = time.monotonic() - start
    print(f"session: {tokens:,} tokens, {messages:,} messages, {body.stat().st_size / 1e6:.1f} MB")
    print(f"page: {page.stat().st_size / 1e6:.1f} MB in {took:.1f} s; {made.stderr.strip()}")
    with sync_playwright() as play:
        browser = play.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        print(f"browser: Chromium {browser.version}, headless")
        for width, height in ((1360, 900), (390, 844)):
            view = browser.new_page(viewport={"width": width, "height": height})
            asked = []
            view.on("request", lambda request: asked.append(request.url))
            view.add_init_script(WATCH)
            start = time.monotonic()
            view.goto(page.as_uri(), wait_until="load")
            loaded = (time.monotonic() - start) * 1000
            view.wait_for_timeout(500)
            paint = view.evaluate("performance.getEntriesByName('first-contentful-paint')[0]?.startTime ?? null")
            opening = view.evaluate("({count: window.long.length, longest: Math.max(0, ...window.long)})")
            elements = view.evaluate("document.querySelectorAll('*').length")
            print(f"{width}x{height}: first paint {paint and round(paint)} ms, loaded {loaded:.0f} ms, {elements:,} elements, requests {len(asked)}")
            print(f"  tasks over 50 ms while it opens: {rounded(opening)}")
            print(f"  line by line, ms: {rounded(view.evaluate(WHEEL))}")
            print(f"  from end to end in 300 jumps, ms: {rounded(view.evaluate(SCROLL))}")
            print(f"  sideways: {view.evaluate('document.documentElement.scrollWidth - innerWidth')} px")
            start = time.monotonic()
            view.evaluate("document.querySelector('#show-digested:not(:disabled), #show-folded').click()")
            view.evaluate("new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)))")
            print(f"  a filter: {(time.monotonic() - start) * 1000:.0f} ms")
            view.close()
        browser.close()
