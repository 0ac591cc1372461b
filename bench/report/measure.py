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


# What is done in one frame: the page is scrolled, and the browser does what that takes.
STEPS = {
    "line by line (120 px)": "scrollBy(0, 120)",
    "from end to end": "scrollTo(0, document.documentElement.scrollHeight * at / 300)",
}
SCROLL = """
async () => {
  const frames = []; let last = performance.now(); scrollTo(0, 0);
  for (let at = 0; at < 300; at++) {
    STEP;
    await new Promise(done => requestAnimationFrame(done));
    const now = performance.now(); frames.push(now - last); last = now;
  }
  return frames;
}
"""


def spread(values):
    values = sorted(values)
    at = lambda share: values[min(len(values) - 1, int(share * len(values)))] if values else 0
    return f"median {at(0.5):.1f}, 95 of 100 {at(0.95):.1f}, worst {at(1):.1f}"


def tasks(browser, folder, view, work):
    """The processor time of each task of the page's main thread, in ms: what somebody else does on the machine is not in it."""
    trace = Path(folder) / "trace.json"
    browser.start_tracing(page=view, path=str(trace), categories=["devtools.timeline", "disabled-by-default-devtools.timeline", "toplevel"])
    given = work()
    browser.stop_tracing()
    events = json.loads(trace.read_text())["traceEvents"]
    main = {(e["pid"], e["tid"]) for e in events if e["name"] == "thread_name" and e["args"]["name"] == "CrRendererMain"}
    ran = [e.get("tdur", 0) / 1000 for e in events if e["name"] == "RunTask" and (e["pid"], e["tid"]) in main]
    return given, ran


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
            _, ran = tasks(browser, folder, view, lambda: view.goto(page.as_uri(), wait_until="load"))
            view.wait_for_timeout(500)
            paint = view.evaluate("performance.getEntriesByName('first-contentful-paint')[0]?.startTime ?? null")
            elements = view.evaluate("document.querySelectorAll('*').length")
            print(f"{width}x{height}: first paint after {paint and round(paint)} ms, {elements:,} elements, requests {len(asked)}")
            print(f"  opening: {sum(ran):.0f} ms of the processor, the longest task {max(ran):.0f} ms")
            for name, step in STEPS.items():
                frames, ran = tasks(browser, folder, view, lambda: view.evaluate(SCROLL.replace("STEP", step)))
                long = sum(task > 50 for task in ran)
                print(f"  {name}, 300 frames: {sum(ran) / 300:.1f} ms of the processor a frame, the longest task {max(ran):.0f} ms, {long} over 50 ms; frames {spread(frames)} ms")
            print(f"  sideways: {view.evaluate('document.documentElement.scrollWidth - innerWidth')} px")
            start = time.monotonic()
            view.evaluate("document.querySelector('#show-shortened:not(:disabled), #show-summarized').click()")
            view.evaluate("new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)))")
            print(f"  a filter: {(time.monotonic() - start) * 1000:.0f} ms")
            view.close()
        browser.close()
