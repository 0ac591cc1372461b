// Asks for the page again when the gateway says that there is news, and puts what is new in place of what was there. What somebody
// typed, opened, scrolled to or has in focus stays as it is. Without this script the page is the same, and has to be reloaded.
"use strict";
(() => {
  let busy = false, again = false;

  const kept = (region) => ({
    open: [...region.querySelectorAll("details[id]")].filter((one) => one.open).map((one) => one.id),
    scrolled: [...region.querySelectorAll("[tabindex='0']")].map((one) => [one.scrollLeft, one.scrollTop]),
    focus: region.contains(document.activeElement) ? path(region, document.activeElement) : null,
  });

  // The way from a region to an element in it, by places: after a change it leads to what stands there now.
  const path = (region, element) => {
    const way = [];
    for (let at = element; at !== region; at = at.parentElement) way.unshift([...at.parentElement.children].indexOf(at));
    return way;
  };

  const restore = (region, state) => {
    for (const id of state.open) {
      const one = document.getElementById(id);
      if (one) one.open = true;
    }
    region.querySelectorAll("[tabindex='0']").forEach((one, at) => {
      if (state.scrolled[at]) [one.scrollLeft, one.scrollTop] = state.scrolled[at];
    });
    const focus = state.focus && state.focus.reduce((at, place) => at && at.children[place], region);
    if (focus && focus.focus) focus.focus({ preventScroll: true });
  };

  const refresh = async () => {
    if (busy || document.hidden) { again = true; return; }
    busy = true; again = false;
    try {
      const answer = await fetch(location.pathname + location.search, { cache: "no-store", redirect: "error" });
      if (!answer.ok) return;
      const fresh = new DOMParser().parseFromString(await answer.text(), "text/html");
      for (const region of document.querySelectorAll("[data-live][id]")) {
        const now = fresh.getElementById(region.id);
        if (!now || now.innerHTML === region.innerHTML) continue;
        const state = kept(region);
        region.replaceChildren(...[...now.childNodes].map((node) => document.importNode(node, true)));
        restore(region, state);
      }
    } catch { /* The next news brings another try. */ } finally {
      busy = false;
      if (again && !document.hidden) refresh();
    }
  };

  new EventSource("/events").addEventListener("news", refresh);
  document.addEventListener("visibilitychange", () => { if (again) refresh(); });
})();
