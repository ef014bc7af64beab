// Keeps what is shown up to date: the server says that something changed, and the part of the page that lists it is read anew.
"use strict";
(() => {
  const status = document.querySelector("[data-status]");
  const list = document.querySelector("[data-live]");
  const proposal = document.querySelector("[data-proposal]");
  let source = null;
  let waiting = false;

  async function fresh() {
    const answer = await fetch(location.href, { credentials: "same-origin" });
    if (!answer.ok) return null;
    return new DOMParser().parseFromString(await answer.text(), "text/html");
  }

  function tell(text) {
    status.textContent = text;
    setTimeout(() => { if (status.textContent === text) status.textContent = ""; }, 8000);
  }

  async function refresh(event) {
    // One proposal, which may be long, is only read anew when it is the one that changed.
    if (proposal && event && event.data && !JSON.parse(event.data).includes(proposal.dataset.proposal)) return;
    if (waiting) return;
    waiting = true;
    try {
      const page = await fresh();
      if (page === null) return;
      const nav = page.querySelector("nav");
      if (nav) document.querySelector("nav").replaceWith(nav);
      if (list) {
        const newer = page.querySelector("[data-live]");
        if (newer && newer.innerHTML !== list.innerHTML) {
          const held = list.contains(document.activeElement) ? document.activeElement.getAttribute("href") : null;
          list.innerHTML = newer.innerHTML;
          if (held) list.querySelector(`[href="${CSS.escape(held)}"]`)?.focus();
          tell("The list has changed.");
        }
      }
      const other = page.querySelector("[data-proposal]");
      if (proposal && other && other.dataset.state !== proposal.dataset.state) {
        // Somebody else decided: what can be typed here is void, and what came of it is worth more.
        proposal.dataset.state = other.dataset.state;
        proposal.innerHTML = other.innerHTML;
        tell(`It is ${other.dataset.state} now.`);
      }
    } catch {
      // The server is away for a moment; the next event, or a reload, shows what is so.
    } finally {
      waiting = false;
    }
  }

  function listen() {
    if (source !== null) return;
    source = new EventSource("/events");
    source.addEventListener("changed", refresh);
    source.addEventListener("open", () => {
      for (const note of document.querySelectorAll("[data-if-live]")) note.hidden = false;
    });
  }

  function rest() {
    if (source !== null) source.close();
    source = null;
  }

  // A browser keeps six connections to one server: tabs that nobody looks at give theirs back.
  document.addEventListener("visibilitychange", () => {
    if (document.hidden) rest();
    else { listen(); refresh(); }
  });
  addEventListener("pagehide", rest);
  if (!document.hidden) listen();
})();
