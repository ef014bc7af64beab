// Keeps the page up to date. The server sends only that something changed; this fetches the page again and replaces the parts that differ.
"use strict";
(() => {
  const status = document.querySelector("[data-status]");
  const list = document.querySelector("[data-live]");
  const proposal = document.querySelector("[data-proposal]");
  const journey = document.querySelector("[data-journey]");
  const about = proposal?.dataset.proposal ?? journey?.dataset.journey;
  let source = null;
  let waiting = false;
  let again = false;

  async function fetched() {
    const answer = await fetch(location.href, { credentials: "same-origin" });
    if (!answer.ok) return null;
    return new DOMParser().parseFromString(await answer.text(), "text/html");
  }

  function announce(text) {
    status.textContent = text;
    setTimeout(() => { if (status.textContent === text) status.textContent = ""; }, 8000);
  }

  async function refresh(event) {
    // A page of one proposal or journey can be long, so it is fetched again only if that one changed.
    if (about && event && event.data && !JSON.parse(event.data).includes(about)) return;
    if (waiting) {
      again = true;
      return;
    }
    waiting = true;
    try {
      const page = await fetched();
      if (page === null) return;
      const nav = page.querySelector("nav");
      if (nav) document.querySelector("nav").replaceWith(nav);
      const summary = page.querySelector(".menu > summary");
      if (summary) document.querySelector(".menu > summary").innerHTML = summary.innerHTML;
      if (list) {
        const newer = page.querySelector("[data-live]");
        if (newer && newer.innerHTML !== list.innerHTML) {
          const focused = list.contains(document.activeElement) ? document.activeElement.getAttribute("href") : null;
          const checked = new Set([...list.querySelectorAll("input:checked")].map((box) => box.value));
          list.innerHTML = newer.innerHTML;
          for (const box of list.querySelectorAll("input[type=checkbox]")) box.checked = checked.has(box.value);
          if (focused) list.querySelector(`[href="${CSS.escape(focused)}"]`)?.focus();
          announce("The list has changed.");
        }
      }
      const other = page.querySelector("[data-proposal]");
      if (proposal && other && other.dataset.state !== proposal.dataset.state) {
        // Somebody else decided, so these forms no longer work: the outcome takes their place.
        proposal.dataset.state = other.dataset.state;
        proposal.className = other.className;
        proposal.innerHTML = other.innerHTML;
        announce(`The proposal is now ${other.dataset.state}.`);
      }
      const newer = page.querySelector("[data-journey]");
      if (journey && newer) updateJourney(newer);
    } catch {
      // The server did not answer. The next event, or a reload, brings the page up to date.
    } finally {
      waiting = false;
      if (again) {
        again = false;
        refresh();
      }
    }
  }

  // A part with forms is replaced only after the journey has moved: until then its forms work, and somebody may be typing.
  function updateJourney(newer) {
    const moved = newer.dataset.version !== journey.dataset.version;
    for (const part of journey.querySelectorAll("[data-part]")) {
      const other = newer.querySelector(`[data-part="${part.dataset.part}"]`);
      if (!other || other.innerHTML === part.innerHTML) continue;
      if (!moved && (part.querySelector("form") || other.querySelector("form"))) continue;
      replacePart(part, other);
    }
    if (!moved) return;
    journey.dataset.version = newer.dataset.version;
    journey.querySelector("[data-notice]")?.remove();
    announce(`The journey is now at version ${newer.dataset.version}.`);
  }

  // Replaces a part, and keeps what somebody has typed, opened or focused in it.
  function replacePart(part, other) {
    const named = (field) => `[action="${CSS.escape(field.form.getAttribute("action"))}"] [name="${field.name}"]`;
    const typed = [...part.querySelectorAll("textarea, select, input:not([type=hidden])")].map((field) => [named(field), field]);
    const open = [...part.querySelectorAll("details[id]")].map((one) => [one.id, one.open]);
    const focused = part.contains(document.activeElement) ? document.activeElement : null;
    const href = focused?.getAttribute("href");
    part.innerHTML = other.innerHTML;
    for (const [where, field] of typed) {
      const now = part.querySelector(where);
      if (!now) continue;
      if (field.type === "checkbox") now.checked = field.checked;
      else if (field.value) now.value = field.value;
      if (field === focused) now.focus();
    }
    for (const [id, was] of open) {
      const now = part.querySelector(`#${CSS.escape(id)}`);
      if (now) now.open = was;
    }
    if (href) part.querySelector(`[href="${CSS.escape(href)}"]`)?.focus();
  }

  function listen() {
    if (source !== null) return;
    source = new EventSource("/events");
    source.addEventListener("changed", refresh);
    source.addEventListener("open", () => {
      // Changes before this moment, or while the connection was lost, sent no event.
      refresh();
      for (const note of document.querySelectorAll("[data-if-live]")) note.hidden = false;
    });
  }

  function pause() {
    if (source !== null) source.close();
    source = null;
  }

  // A browser has six connections to a server for all its tabs, so a hidden tab closes its own.
  document.addEventListener("visibilitychange", () => {
    if (document.hidden) pause();
    else { listen(); refresh(); }
  });
  addEventListener("pagehide", pause);
  if (!document.hidden) listen();
})();
