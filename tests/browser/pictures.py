"""The pictures of the docs: the dashboard with sessions that are made up, and the page of `longhaul report` on the example."""

import subprocess
import tempfile
from pathlib import Path

from watched import DESKTOP

EXAMPLE = Path(__file__).parents[2] / "examples/session.json"


def draw(world, folder):
    folder.mkdir(parents=True, exist_ok=True)
    number = world.gateway.ask(f"/api/sessions/{world.name}")["epochs"][-1]["number"]
    with world.watched.page({**DESKTOP, "height": 1000}, color_scheme="light") as page:
        page.goto(world.gateway.url + "/")
        page.screenshot(path=folder / "overview.png")
        page.goto(f"{world.gateway.url}/sessions/{world.name}/epochs/{number}")
        page.get_by_role("link", name="First change").click()
        page.screenshot(path=folder / "compaction.png")
    with tempfile.TemporaryDirectory() as made:
        report = Path(made) / "page.html"
        subprocess.run([world.program, "report", EXAMPLE, "-o", report, "--context-length", "10k", "--to-tokens", "1500", "--quiet"], check=True)
        page = world.browser.new_page(viewport={"width": 1200, "height": 1500})
        page.goto(report.as_uri())
        page.screenshot(path=folder / "report.png")
        page.close()
    print(f"three pictures in {folder}")
