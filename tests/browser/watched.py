"""A browser that is watched: what it may never do is an error wherever it happens."""

from contextlib import contextmanager
from urllib.parse import urlsplit

CHROMIUM = "/usr/bin/chromium"
DESKTOP = {"width": 1280, "height": 900}
PHONE = {"width": 390, "height": 844}


class Watched:
    """Pages of one gateway, with everything that went wrong on them."""

    def __init__(self, browser, url):
        self.browser, self.url = browser, url
        self.wrong, self.requests = [], 0

    @contextmanager
    def page(self, viewport=None, expect_refusals=False, **options):
        """A page by itself; whatever goes wrong on it is told when it closes."""
        context = self.browser.new_context(viewport=viewport or DESKTOP, **options)
        context.set_default_timeout(20_000)
        page = context.new_page()
        before = len(self.wrong)
        page.on("dialog", lambda dialog: (self.wrong.append(f"a dialog: {dialog.message}"), dialog.dismiss()))
        page.on("pageerror", lambda error: self.wrong.append(f"an error of a script: {error}"))
        page.on("request", self._request)
        page.on("response", self._response)
        page.on("popup", lambda popup: self.wrong.append(f"a window: {popup.url}"))

        def console(message):
            if message.type in ("error", "warning") and not expect_refusals:
                self.wrong.append(f"the console: {message.text}")

        page.on("console", console)
        try:
            yield page
        finally:
            context.close()
        assert len(self.wrong) == before, "\n".join(self.wrong[before:])

    def _request(self, request):
        self.requests += 1
        if urlsplit(request.url).netloc != urlsplit(self.url).netloc:
            self.wrong.append(f"a request to another host: {request.url}")

    def _response(self, response):
        headers = response.headers
        # A file has its policy in itself.
        if response.url.startswith("file:"):
            return
        if "text/html" in headers.get("content-type", "") and "default-src 'none'" not in headers.get("content-security-policy", ""):
            self.wrong.append(f"a page without a policy: {response.url}")


def sideways(page):
    """By how many pixels a page can be scrolled sideways, and what sticks out of it."""
    return page.evaluate(
        """() => {
          const width = document.documentElement.clientWidth, over = document.documentElement.scrollWidth - width;
          const inside = (one) => { for (let at = one.parentElement; at; at = at.parentElement)
            if (["auto", "scroll", "hidden"].includes(getComputedStyle(at).overflowX)) return true; return false; };
          const out = [...document.body.querySelectorAll("*")].filter((one) => one.getBoundingClientRect().right > width + 1 && !inside(one));
          return [over, out.slice(0, 5).map((one) => one.outerHTML.slice(0, 160))];
        }"""
    )
