// Loads the page again when the gateway reports a change, and replaces the regions that differ. Typed text,
// open details, scroll positions and the focus stay. Without this script the page works the same, but must be
// reloaded by hand.
"use strict";
(() => {
  let busy = false, again = false;

  const kept = (region) => ({
    open: [...region.querySelectorAll("details[id]")].filter((one) => one.open).map((one) => one.id),
    scrolled: [...region.querySelectorAll("[tabindex='0']")].map((one) => [one.scrollLeft, one.scrollTop]),
    focus: region.contains(document.activeElement) ? path(region, document.activeElement) : null,
  });

  // Returns the path from a region to an element in it, as child indices. After a change it leads to the
  // element at the same position.
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
    } catch { /* The next change brings another try. */ } finally {
      busy = false;
      if (again && !document.hidden) refresh();
    }
  };

  new EventSource("/events").addEventListener("change", refresh);
  document.addEventListener("visibilitychange", () => { if (again) refresh(); });
})();
