// Keeps what is shown up to date: the server says that something changed, and the part of the page that lists it is read anew.
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
    // One proposal or journey, which may be long, is only read anew when it is the one that changed.
    if (about && event && event.data && !JSON.parse(event.data).includes(about)) return;
    if (waiting) {
      again = true;
      return;
    }
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
      const newer = page.querySelector("[data-journey]");
      if (journey && newer) follow(newer);
    } catch {
      // The server is away for a moment; the next event, or a reload, shows what is so.
    } finally {
      waiting = false;
      if (again) {
        again = false;
        refresh();
      }
    }
  }

  // Parts with forms are only exchanged when the journey moved, because what they would do is then another thing.
  function follow(newer) {
    const moved = newer.dataset.version !== journey.dataset.version;
    for (const part of journey.querySelectorAll("[data-part]")) {
      const other = newer.querySelector(`[data-part="${part.dataset.part}"]`);
      if (!other || other.innerHTML === part.innerHTML) continue;
      if (!moved && (part.querySelector("form") || other.querySelector("form"))) continue;
      exchange(part, other);
    }
    if (!moved) return;
    journey.dataset.version = newer.dataset.version;
    journey.querySelector("[data-notice]")?.remove();
    tell(`The journey is at version ${newer.dataset.version} now.`);
  }

  // What somebody has typed, opened or focused there stays so.
  function exchange(part, other) {
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
      // What changed between the page and this moment, or while the connection was lost, was told to nobody.
      refresh();
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
