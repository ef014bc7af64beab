// Searches while somebody types: fetches the list of results from the server and puts it in place of the old one.
"use strict";
(() => {
  const form = document.querySelector("[data-find-form]");
  const field = form.elements.q;
  const results = document.querySelector("[data-results]");
  const count = document.querySelector("[data-count-of-hits]");
  const PAUSE_MS = 80;
  const SAID_AFTER_MS = 600;
  let timer = 0;
  let saying = 0;
  let request = null;
  let shown = asked();

  document.querySelector("[data-keys]").hidden = false;

  function asked() {
    const filled = [...new FormData(form)].filter(([, text]) => text.trim());
    return new URLSearchParams(filled.map(([name, text]) => [name, text.trim()])).toString();
  }

  // The summary names the filters, so that they are known while they are folded away.
  const named = document.querySelector("[data-filters]");
  function nameFilters() {
    const filters = [...new FormData(form)].filter(([name, text]) => name !== "q" && text.trim()).map(([, text]) => text.trim());
    named.textContent = filters.length ? `: ${filters.join(", ")}` : "";
  }

  const address = (words) => (words ? `/find?${words}` : "/find");

  // Screen readers hear the number of hits once the typing pauses, not after each letter.
  function announce() {
    clearTimeout(saying);
    const said = results.querySelector("[data-said]")?.dataset.said ?? "";
    saying = setTimeout(() => { count.textContent = said; }, SAID_AFTER_MS);
  }

  async function fetched(words, extra, signal) {
    const answer = await fetch(`/find?${words}${words ? "&" : ""}part=results${extra}`, { credentials: "same-origin", signal });
    if (!answer.ok && answer.status !== 422) throw new Error(answer.status === 404 ? "You are logged out: load the page again." : "The server could not answer.");
    return answer.text();
  }

  function problem(text) {
    const note = document.createElement("p");
    note.className = "notice warn";
    note.textContent = text;
    note.dataset.said = text;
    results.replaceChildren(note);
  }

  async function search() {
    const words = asked();
    if (words === shown && request === null) return;
    request?.abort();
    const mine = new AbortController();
    request = mine;
    results.setAttribute("aria-busy", "true");
    try {
      const html = await fetched(words, "", mine.signal);
      if (request !== mine) return;
      // The old list stays until the new one is here, so nothing flickers.
      if (results.innerHTML !== html) results.innerHTML = html;
      shown = words;
      history.replaceState(null, "", address(words));
    } catch (error) {
      if (mine.signal.aborted) return;
      problem(error instanceof TypeError ? "The server does not answer." : error.message);
      shown = null;
    }
    if (request === mine) {
      request = null;
      results.removeAttribute("aria-busy");
      announce();
    }
  }

  function later() {
    clearTimeout(timer);
    timer = setTimeout(search, PAUSE_MS);
  }

  form.addEventListener("input", later);
  form.addEventListener("input", nameFilters);
  form.addEventListener("change", later);
  form.addEventListener("submit", (event) => {
    // A search that nothing has answered yet is sent as a form without a script would send it.
    if (asked() === shown) {
      event.preventDefault();
      hits()[0]?.focus();
    }
  });
  // Explanations cost as much as the search, so they are fetched when the first one is opened.
  results.addEventListener("toggle", async (event) => {
    const why = event.target.closest?.("details[data-why]");
    if (!why?.open || !why.querySelector("a[href^='/find?']") || why.dataset.asked) return;
    why.dataset.asked = "yes";
    const words = shown;
    try {
      const html = await fetched(words, "&why=1", undefined);
      if (words !== shown) return;
      const page = new DOMParser().parseFromString(html, "text/html");
      for (const one of results.querySelectorAll("details[data-why]")) {
        const told = page.querySelector(`details[data-why="${one.dataset.why}"]`);
        if (told) one.innerHTML = told.innerHTML;
      }
    } catch {
      // The link in it leads to the same explanation.
    }
  }, true);

  const hits = () => [...results.querySelectorAll("a[data-hit]")];

  function step(by) {
    const links = hits();
    const at = links.indexOf(document.activeElement);
    if (at === 0 && by < 0) field.focus();
    else links[at < 0 ? (by > 0 ? 0 : links.length - 1) : Math.min(at + by, links.length - 1)]?.focus();
  }

  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || event.shiftKey || event.isComposing) return;
    const inHits = results.contains(document.activeElement);
    const arrow = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    const letter = localStorage.getItem("shortcuts") === "off" ? undefined : { j: 1, k: -1 }[event.key];
    // With nothing focused the arrows scroll the page, as everywhere.
    const by = inHits ? arrow ?? letter : event.target === field ? (arrow === 1 ? 1 : undefined) : event.target === document.body ? letter : undefined;
    if (by === undefined || hits().length === 0) return;
    event.preventDefault();
    step(by);
  });
})();
