"""Pictures of each page for the docs, of sessions that are made up."""

from watched import DESKTOP, PHONE


def draw(world, folder):
    folder.mkdir(parents=True, exist_ok=True)
    name = world.name
    epoch = world.gateway.ask(f"/api/sessions/{name}")["epochs"][-1]["number"]
    pages = {
        "overview": "/",
        "session": f"/sessions/{name}",
        "compaction": f"/sessions/{name}/epochs/{epoch}",
        "search": f"/sessions/{name}/search?q=module_5%3A%3Aport+FAILED",
    }
    for device, viewport in (("desktop", {**DESKTOP, "height": 1000}), ("phone", {**PHONE, "height": 1500})):
        for scheme in ("light", "dark"):
            with world.watched.page(viewport, color_scheme=scheme) as page:
                for page_name, path in pages.items():
                    page.goto(world.gateway.url + path)
                    page.screenshot(path=folder / f"{page_name}-{device}-{scheme}.png")
                    if page_name == "compaction":
                        page.evaluate("() => [...document.querySelectorAll('h2')].find((one) => one.textContent.includes('before and after')).scrollIntoView()")
                        page.screenshot(path=folder / f"beside-{device}-{scheme}.png")
                page.goto(f"{world.gateway.url}/sessions/{name}")
                page.locator("input[name=focus]").fill("the port of module 8")
                page.get_by_role("button", name="Preview").first.click()
                page.screenshot(path=folder / f"preview-{device}-{scheme}.png")
    print(f"{len(list(folder.glob('*.png')))} pictures in {folder}")
