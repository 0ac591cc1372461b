"""What must hold of the dashboard in a real browser."""

import json
import re
import time

from sessions import PAYLOADS, hostile
from watched import DESKTOP, PHONE, Watched, sideways

CHECKS = []


def check(function):
    CHECKS.append(function)
    return function


def field(value, path):
    for name in path.split("."):
        value = value[name]
    return value


def compared(scope, value, where):
    """That every number which a part of a page says is the one of the API, and reads as it."""
    found = scope.locator("data[data-field]")
    count = found.count()
    for at in range(count):
        one = found.nth(at)
        name, raw, text = one.get_attribute("data-field"), json.loads(one.get_attribute("value")), one.text_content()
        wanted = field(value, name)
        wanted = len(wanted) if isinstance(wanted, list) else wanted
        assert raw == wanted, f"{where}: {name} is {raw} and not {wanted}"
        if isinstance(raw, int):
            assert text.replace(",", "") == str(raw), f"{where}: {name} reads {text} and is {raw}"
    return count


def pages_of(world, name):
    """All pages that a session has."""
    view = world.gateway.ask(f"/api/sessions/{name}")
    pages = ["/", f"/sessions/{name}", f"/sessions/{name}/search?q=port", f"/sessions/{name}/search?q=zzzunseen"]
    pages += [f"/sessions/{name}/epochs/{epoch['number']}" for epoch in view["epochs"][-2:]]
    if len(view["epochs"]) > 1:
        pages.append(f"/sessions/{name}/epochs/{view['epochs'][-1]['number']}?against=shown")
    hits = world.gateway.ask(f"/api/sessions/{name}/search?q=port")["hits"]
    pages += [f"/sessions/{name}/recall/{hit['handle']}" for hit in hits[:2]]
    return pages


@check
def the_checks_notice_what_they_are_for(world):
    # The handler that is put in is refused, which the console says sooner or later.
    with world.watched.page(expect_refusals=True) as page:
        page.goto(world.gateway.url + "/")
        assert not page.evaluate(INJECTED) and not page.evaluate(CONTRAST) and sideways(page)[0] <= 0
        page.evaluate("""() => {
          const one = document.createElement("img");
          one.setAttribute("onerror", "1");
          const wide = document.createElement("p");
          wide.textContent = "W".repeat(3000) + "\u202e";
          wide.className = "soft";
          document.querySelector("main").append(one, wide);
          for (const data of document.querySelectorAll("data")) data.value = "12345678";
        }""")
        assert len(page.evaluate(INJECTED)) == 3, page.evaluate(INJECTED)
        assert sideways(page)[0] > 0
        try:
            compared(page.locator("#cards"), world.gateway.ask("/api/overview"), "a changed page")
        except AssertionError:
            return
        raise AssertionError("wrong numbers are not noticed")


@check
def the_pages_show_the_numbers_of_the_api(world):
    overview = world.gateway.ask("/api/overview")
    prompts, reads, outputs = (sum(column) for column in zip(*world.upstream.usages))
    totals = overview["totals"]
    assert totals["requests"] == world.gateway.sent, (totals["requests"], world.gateway.sent)
    assert (totals["input"], totals["cache_read"], totals["output"]) == (prompts, reads, outputs), totals
    assert totals["compacted"] > 5 and totals["tokens_after"] < totals["tokens_before"], totals
    with world.watched.page() as page:
        page.goto(world.gateway.url + "/")
        assert compared(page.locator("#cards"), overview, "overview") >= 10
        rows = {row["name"]: row for row in overview["sessions"]}
        assert set(rows) == set(world.gateway.names())
        for name, row in rows.items():
            assert compared(page.locator(f"tr#session-{name}"), row, name) >= 3
        for name in rows:
            page.goto(f"{world.gateway.url}/sessions/{name}")
            view = world.gateway.ask(f"/api/sessions/{name}")
            assert compared(page.locator("#cards"), view, name) >= 6
            assert page.locator("#epochs tbody tr").count() == len(view["epochs"])
            assert page.locator("#requests tbody tr").count() == len(view["requests"]["rows"])


@check
def money_that_was_lost_is_seen(world):
    rows = world.gateway.ask("/api/sessions")["sessions"]
    lost = [row["name"] for row in rows if (row["totals"]["usd_saved"] or 0) < 0]
    assert lost, "a session that ends with its compaction has lost money"
    with world.watched.page() as page:
        for name in lost:
            page.goto(f"{world.gateway.url}/sessions/{name}")
            shown = page.locator("#cards data[data-field='totals.usd_saved']")
            assert "bad" in shown.get_attribute("class") and re.match(r"[-−–]", shown.text_content()), shown.text_content()


@check
def drawings_have_axes_units_and_words(world):
    with world.watched.page() as page:
        for path in ["/", f"/sessions/{world.name}"]:
            page.goto(world.gateway.url + path)
            drawings = page.locator("figure svg:not(.key)")
            assert drawings.count() >= 1
            for at in range(drawings.count()):
                drawing = drawings.nth(at)
                box = drawing.bounding_box()
                if box is None or box["width"] < 200:
                    continue
                text = drawing.text_content()
                assert "tokens" in text or "dollars" in text, text
                assert drawing.locator("title").count() >= 1
                assert drawing.locator("text").count() >= 6, text


@check
def the_same_is_there_without_a_script(world):
    with world.watched.page(java_script_enabled=False) as page:
        page.goto(f"{world.gateway.url}/sessions/{world.name}")
        view = world.gateway.ask(f"/api/sessions/{world.name}")
        assert compared(page.locator("#cards"), view, "without a script") >= 6
        page.get_by_role("button", name="Dark").click()
        assert page.locator("html").get_attribute("data-theme") == "dark"


@check
def a_compaction_with_a_focus_is_looked_at_and_made_and_undone(world):
    name, url = world.name, f"{world.gateway.url}/sessions/{world.name}"

    def stands():
        view = world.gateway.ask(f"/api/sessions/{name}")
        return view["epoch"], len(view["epochs"])

    with world.watched.page() as page:
        page.goto(url)
        # Something to compact.
        while stands()[0] is not None:
            page.get_by_role("button", name="Undo").click()
            assert "was undone" in page.locator("[role=status]").inner_text()
        assert page.get_by_role("button", name="Undo").is_disabled()
        _, made = stands()
        page.locator("input[name=focus]").first.fill("the port of module 8")
        page.get_by_role("button", name="Preview").first.click()
        assert "Preview of a compaction" in page.locator("h1").inner_text()
        assert stands() == (None, made), "a preview changed something"
        assert page.locator("input[name=focus]").last.input_value() == "the port of module 8"
        page.get_by_role("button", name="Compress", exact=True).click()
        page.wait_for_url("**/sessions/**done=compressed")
        assert stands() == (made + 1, made + 1), stands()
        assert "the port of module 8" in page.locator("#epochs tbody tr").first.inner_text()
        assert compared(page.locator("#cards"), world.gateway.ask(f"/api/sessions/{name}"), name) >= 6
        page.get_by_role("button", name="Undo").click()
        assert stands() == (None, made + 1), stands()
        page.get_by_role("button", name="Redo").click()
        assert stands() == (made + 1, made + 1), stands()
        assert "active again" in page.locator("[role=status]").inner_text()
        # And what the client sends next goes out so.
        page.get_by_role("link", name=f"Compaction {made + 1}").click()
        assert f"Compaction {made + 1}" in page.locator("h1").inner_text()


@check
def what_was_removed_is_found_and_opened(world):
    with world.watched.page() as page:
        page.goto(f"{world.gateway.url}/sessions/{world.name}")
        page.locator("input[name=q]").fill("module_5::port FAILED")
        page.locator("input[name=q]").press("Enter")
        page.wait_for_url("**/search?q=*")
        hits = world.gateway.ask(f"/api/sessions/{world.name}/search?q=module_5%3A%3Aport+FAILED")["hits"]
        assert page.locator("ol.hits > li").count() == len(hits) > 0
        assert page.locator("ol.hits > li").first.locator("code").first.inner_text() == hits[0]["handle"]
        page.locator("ol.hits > li a").first.click()
        opened = world.gateway.ask(f"/api/recall/{hits[0]['handle']}")
        assert page.locator("#text").text_content() == opened["text"]
        page.goto(f"{world.gateway.url}/sessions/{world.name}/search?q=zzzunseen")
        assert "No results" in page.locator("[role=status]").inner_text()


@check
def light_and_dark_are_chosen_and_kept(world):
    def brightness(page):
        color = page.evaluate("() => getComputedStyle(document.body).backgroundColor")
        return sum(int(part) for part in re.findall(r"\d+", color)[:3]) / 3

    with world.watched.page(color_scheme="light") as page:
        page.goto(world.gateway.url + "/")
        assert brightness(page) > 200
        page.get_by_role("button", name="Dark").click()
        assert brightness(page) < 80 and page.locator("html").get_attribute("data-theme") == "dark"
        page.goto(f"{world.gateway.url}/sessions/{world.name}")
        assert brightness(page) < 80, "it is not kept"
        assert page.url.endswith(world.name)
        page.get_by_role("button", name="Light").click()
        assert brightness(page) > 200 and page.url.endswith(world.name), page.url
        page.get_by_role("button", name="Auto").click()
        page.emulate_media(color_scheme="dark")
        assert brightness(page) < 80, "it does not follow the system"


@check
def letters_can_be_told_from_what_is_behind_them(world):
    with world.watched.page() as page:
        for scheme in ("light", "dark"):
            page.emulate_media(color_scheme=scheme)
            for path in pages_of(world, world.name):
                page.goto(world.gateway.url + path)
                faint = page.evaluate(CONTRAST)
                assert not faint, (scheme, path, faint)


# Words with a contrast under 4.5 to the colour behind them; large ones under 3.
CONTRAST = """() => {
  const parse = (text) => { const [r, g, b, a = 1] = text.match(/[\\d.]+/g).map(Number); return [r, g, b, a]; };
  const light = ([r, g, b]) => { const part = (v) => (v /= 255) <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4;
    return 0.2126 * part(r) + 0.7152 * part(g) + 0.0722 * part(b); };
  const behind = (one) => { for (let at = one; at; at = at.parentElement) {
    const color = parse(getComputedStyle(at).backgroundColor); if (color[3] > 0.99) return color; } return [255, 255, 255, 1]; };
  const faint = new Map();
  for (const one of document.body.querySelectorAll("*")) {
    if (one.closest("svg") || one.closest(":disabled") || ![...one.childNodes].some((node) => node.nodeType === 3 && node.data.trim())) continue;
    const style = getComputedStyle(one), box = one.getBoundingClientRect();
    if (box.width < 2 || box.height < 2 || style.visibility === "hidden") continue;
    const [a, b] = [light(parse(style.color)), light(behind(one))].sort((x, y) => y - x);
    const large = parseFloat(style.fontSize) >= 24 || (parseFloat(style.fontSize) >= 18.6 && style.fontWeight >= 700);
    if ((a + 0.05) / (b + 0.05) < (large ? 3 : 4.5)) faint.set(one.tagName + "." + one.className, ((a + 0.05) / (b + 0.05)).toFixed(2) + " " + one.textContent.slice(0, 40));
  }
  return [...faint].slice(0, 5);
}"""


@check
def a_phone_shows_every_page_without_scrolling_sideways(world):
    for name in (world.name, world.hostile):
        for viewport in (PHONE, DESKTOP):
            with world.watched.page(viewport) as page:
                for path in pages_of(world, name):
                    page.goto(world.gateway.url + path)
                    for part in page.locator("details:not([open]) > summary").all()[:12]:
                        if part.is_visible():
                            part.click()
                    over, out = sideways(page)
                    assert over <= 0, f"{path} at {viewport['width']}: {over} px, {out}"


@check
def every_control_is_reached_by_keyboard_and_seen(world):
    pages = ["/", f"/sessions/{world.name}", f"/sessions/{world.name}/search?q=port"]
    view = world.gateway.ask(f"/api/sessions/{world.name}")
    pages.append(f"/sessions/{world.name}/epochs/{view['epochs'][-1]['number']}")
    with world.watched.page() as page:
        for path in pages:
            page.goto(world.gateway.url + path)
            wanted = page.evaluate(CONTROLS)
            assert wanted > 5, path
            seen, unseen = 0, []
            for _ in range(wanted + 20):
                page.keyboard.press("Tab")
                at = page.evaluate(FOCUSED)
                if at is None:
                    break
                seen += 1
                # The browser scrolls to the control after it has the focus, on a busy machine not at once. It estimates the
                # height of parts that it has not drawn, so a control in the midst of them may need the focus again.
                for attempt in range(20):
                    if at["seen"]:
                        break
                    page.wait_for_timeout(50)
                    if attempt == 9:
                        page.evaluate("() => { const one = document.activeElement; one.blur(); one.focus(); }")
                    at = page.evaluate(FOCUSED)
                if not at["seen"]:
                    unseen.append(at["what"])
            assert not unseen, (path, unseen[:5])
            assert seen >= wanted, (path, seen, wanted)
        # The first of them leads past the navigation.
        page.goto(world.gateway.url + "/")
        page.keyboard.press("Tab")
        page.keyboard.press("Enter")
        assert page.evaluate("() => document.activeElement.id") == "main"


# Of several radio buttons the chosen one is reached by Tab, and from there the others by the arrows.
CONTROLS = """() => [...document.querySelectorAll("a[href], button, input:not([type=hidden]), summary, select, textarea, [tabindex='0']")]
  .filter((one) => one.type !== "radio" || one.checked)
  .filter((one) => !one.disabled && one.getClientRects().length && one.checkVisibility({ visibilityProperty: true })).length"""
# What has the focus, and whether it looks like it.
FOCUSED = """() => {
  const one = document.activeElement;
  if (!one || one === document.body) return null;
  const style = getComputedStyle(one), box = one.getBoundingClientRect();
  const ring = (style.outlineStyle !== "none" && parseFloat(style.outlineWidth) > 0) || style.boxShadow !== "none";
  return { what: one.outerHTML.slice(0, 120), seen: ring && box.width > 0 && box.bottom > 0 && box.top < innerHeight };
}"""


@check
def a_page_changes_by_itself_and_keeps_what_somebody_does(world):
    session = world.sessions[0]
    with world.watched.page() as page:
        page.goto(f"{world.gateway.url}/sessions/{world.name}")
        before = int(page.locator("#cards data[data-field='totals.requests']").get_attribute("value"))
        page.locator("input[name=focus]").fill("half a sen")
        page.evaluate("() => { window.stayed = true; }")
        world.gateway.send(session, session.bodies[-1])
        page.wait_for_function(
            "(before) => Number(document.querySelector(\"#cards data[data-field='totals.requests']\").value) > before", arg=before)
        assert page.evaluate("() => window.stayed"), "it was loaded anew"
        assert page.locator("input[name=focus]").input_value() == "half a sen"
        assert page.evaluate("() => document.activeElement.name") == "focus"
        page.goto(world.gateway.url + "/")
        page.locator("#spans > summary").click()
        before = int(page.locator("#cards data[data-field='totals.requests']").get_attribute("value"))
        world.gateway.send(session, session.bodies[-1])
        page.wait_for_function(
            "(before) => Number(document.querySelector(\"#cards data[data-field='totals.requests']\").value) > before", arg=before)
        assert page.locator("#spans").get_attribute("open") is not None, "what was open is closed"


@check
def payloads_change_nothing(world):
    name = world.hostile
    view = world.gateway.ask(f"/api/sessions/{name}")
    assert view["epochs"], "the hostile session was not compacted"
    for script in (True, False):
        with world.watched.page(java_script_enabled=script) as page:
            for path in hostile_pages(world, name):
                page.goto(world.gateway.url + path)
                if script:
                    for part in page.locator("details:not([open]) > summary").all()[:20]:
                        if part.is_visible():
                            part.click()
                    page.mouse.move(300, 300)
                    wrong = page.evaluate(INJECTED)
                    assert not wrong, (path, wrong)
                assert page.locator(".pwned").count() == 0, path
                assert page.locator("body").is_visible(), path
    with world.watched.page() as page:
        page.goto(f"{world.gateway.url}/sessions/{name}")
        text = page.locator("main").inner_text()
        assert "<img src=x onerror=window.pwned=1 class=pwned>{{7*7}}" in text, "the model's name is not shown as it is"
        assert "<script>window.pwned=1" in text, "the title is not shown as it is"
        # Word for word, as far as a page can show it.
        hit = world.gateway.ask(f"/api/sessions/{name}/search?q=onerror")["hits"][0]
        page.goto(f"{world.gateway.url}/sessions/{name}/recall/{hit['handle']}")
        shown = page.locator("#text").text_content()
        for payload in PAYLOADS[:-1]:
            if payload in world.gateway.ask(f"/api/recall/{hit['handle']}")["text"]:
                assert payload in shown, payload
        # A focus and a query can be one, too.
        page.goto(f"{world.gateway.url}/sessions/{name}")
        page.locator("input[name=focus]").fill(PAYLOADS[2])
        page.get_by_role("button", name="Preview").first.click()
        assert not page.evaluate(INJECTED)
        assert page.locator("input[name=focus]:visible").first.input_value() == PAYLOADS[2]


def hostile_pages(world, name):
    quoted = "%22%3E%3Cscript%3Ewindow.pwned%3D1%3C%2Fscript%3E%7B%7B7*7%7D%7D"
    pages = pages_of(world, name) + [f"/?range={quoted}", f"/sessions/{name}?done={quoted}&page={quoted}",
                                     f"/sessions/{name}/search?q={quoted}", f"/login?to={quoted}"]
    hits = world.gateway.ask(f"/api/sessions/{name}/search?q=WWWWWWWW")["hits"]
    hits += world.gateway.ask(f"/api/sessions/{name}/search?q=rtl+joiner+escape")["hits"]
    return pages + [f"/sessions/{name}/recall/{hit['handle']}" for hit in hits[:4]]


# What no page of ours has unless somebody else's words became a part of it.
INJECTED = """() => {
  const wrong = [];
  if (window.pwned !== undefined) wrong.push("a script ran");
  for (const one of document.querySelectorAll("*")) {
    if (["IFRAME", "OBJECT", "EMBED", "IMG", "BASE", "STYLE", "META", "TEMPLATE", "MATH"].includes(one.tagName)
        && !(one.tagName === "META" && (one.hasAttribute("charset") || ["viewport", "color-scheme"].includes(one.name)))) wrong.push(one.outerHTML.slice(0, 120));
    if (one.tagName === "SCRIPT" && one.getAttribute("src") !== "/assets/live.js") wrong.push(one.outerHTML.slice(0, 120));
    for (const { name, value } of one.attributes) {
      if (name.startsWith("on") || name === "style" || name === "srcdoc") wrong.push(name + " at " + one.outerHTML.slice(0, 120));
      if (["href", "action", "src", "formaction", "xlink:href"].includes(name) && !/^[/#]([^/]|$)/.test(value)) wrong.push(name + "=" + value.slice(0, 80));
    }
  }
  // What turns the direction of writing or is not meant to be seen stands as a symbol.
  if (/[\\u0000-\\u0008\\u000b-\\u001f\\u202a-\\u202e\\u2066-\\u2069\\u200e\\u200f\\ufeff]/.test(document.body.innerText)) wrong.push("a control character");
  if (getComputedStyle(document.body).display === "none") wrong.push("the page is hidden");
  return wrong.slice(0, 5);
}"""


@check
def a_report_of_payloads_is_as_harmless(world):
    """`longhaul report` writes one file that is opened from a disk, with the same view in it."""
    body, report = world.gateway.folder / "hostile.json", world.gateway.folder / "report.html"
    body.write_text(json.dumps(hostile().bodies[-1]))
    world.gateway.run("report", str(body), "-o", str(report), "--to-tokens", "20000", "--quiet")
    for viewport in (PHONE, DESKTOP):
        with Watched(world.browser, "file://").page(viewport) as page:
            page.goto(report.as_uri())
            for part in page.locator("details:not([open]) > summary").all()[:20]:
                if part.is_visible():
                    part.click()
            assert page.locator(".pwned").count() == 0
            assert page.evaluate("() => window.pwned === undefined && getComputedStyle(document.body).display !== 'none'")
            handlers = "() => [...document.querySelectorAll('*')].filter((one) => [...one.attributes].some(({ name }) => name.startsWith('on'))).length"
            assert page.evaluate(handlers) == 0
            assert "<script>window.pwned=1" in page.locator("main").inner_text(), "it is not shown as it is"
            over, out = sideways(page)
            assert over <= 0, f"at {viewport['width']}: {over} px, {out}"


@check
def what_is_not_there_is_a_page_of_ours(world):
    with world.watched.page(expect_refusals=True) as page:
        for path in ["/sessions/nobody", f"/sessions/{world.name}/epochs/99", f"/sessions/{world.name}/recall/zzzzzzzzzz",
                     "/sessions/%3Cscript%3Ewindow.pwned=1%3C%2Fscript%3E", "/sessions/..%2F..%2Fetc"]:
            response = page.goto(world.gateway.url + path)
            assert 400 <= response.status < 500, (path, response.status)
            assert not page.evaluate("() => window.pwned"), path


@check
def who_needs_a_key_comes_in_with_one(world):
    gateway, watched = world.closed()
    try:
        key = gateway.run("keys", "add", "browser", "--tenant", "somebody")
        with watched.page(expect_refusals=True) as page:
            page.goto(gateway.url + "/")
            assert page.url.startswith(gateway.url + "/login"), page.url
            page.locator("input[name=key]").fill("lh-wrong")
            page.get_by_role("button", name="Sign in").click()
            assert "Unknown key" in page.locator("[role=alert]").inner_text()
            over, out = sideways(page)
            assert over <= 0, out
            page.locator("input[name=key]").fill(key)
            page.get_by_role("button", name="Sign in").click()
            page.wait_for_url(gateway.url + "/")
            assert "somebody" in page.locator("h1").inner_text()
            cookies = page.context.cookies()
            assert all(cookie["httpOnly"] and cookie["sameSite"] == "Strict" for cookie in cookies if "theme" not in cookie["name"])
            assert key not in json.dumps(cookies), "the key is in a cookie"
            page.get_by_role("button", name="Sign out").click()
            page.goto(gateway.url + "/")
            assert page.url.startswith(gateway.url + "/login"), page.url
    finally:
        gateway.stop()


def run(world, wanted):
    failed = []
    for one in CHECKS:
        if wanted and not any(word in one.__name__ for word in wanted):
            continue
        begun = time.monotonic()
        try:
            one(world)
            verdict = "ok"
        except Exception as error:
            lines = str(error).strip().splitlines()
            verdict = f"FAILED\n    {type(error).__name__}: " + "\n    ".join(lines[:12])
            frame = error.__traceback__
            while frame.tb_next and "checks.py" in frame.tb_next.tb_frame.f_code.co_filename:
                frame = frame.tb_next
            verdict += f"\n    at checks.py:{frame.tb_lineno}"
            failed.append(one.__name__)
        print(f"{one.__name__.replace('_', ' ')}: {verdict} ({time.monotonic() - begun:.1f} s)", flush=True)
    return failed
