"""Makes the picture of docs/report.md: BINARY BODY CHROMIUM PICTURE."""

import subprocess, sys, tempfile
from pathlib import Path

from playwright.sync_api import sync_playwright

binary, body, chromium, picture = sys.argv[1:]

with tempfile.TemporaryDirectory() as folder:
    page = Path(folder) / "page.html"
    subprocess.run([binary, "report", body, "-o", page, "--context-length", "10k", "--to-tokens", "1500", "--quiet"], check=True)
    with sync_playwright() as play:
        browser = play.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        view = browser.new_page(viewport={"width": 1200, "height": 2500})
        view.goto(page.as_uri())
        view.screenshot(path=picture)
        browser.close()
