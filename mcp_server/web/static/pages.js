// Reads a folder of the map when somebody opens it, and the next part of a long list, without leaving the page.
"use strict";
(() => {
  const map = document.querySelector(".map");
  const status = document.querySelector("[data-status]");

  async function part(link) {
    const address = new URL(link.href);
    address.searchParams.set("part", "list");
    address.hash = "";
    const answer = await fetch(address, { credentials: "same-origin" });
    if (!answer.ok) throw new Error(answer.status === 404 ? "This folder is gone, or you are logged out: load the page again." : "The server could not answer.");
    return new DOMParser().parseFromString(await answer.text(), "text/html").body;
  }

  // The link that would load the page anew stays when the server does not answer, with the reason behind it.
  async function read(link, put) {
    if (link.dataset.asked) return;
    link.dataset.asked = "yes";
    link.setAttribute("aria-busy", "true");
    try {
      put(await part(link));
    } catch (error) {
      const reason = document.createElement("span");
      reason.className = "error";
      reason.textContent = ` ${error instanceof TypeError ? "The server does not answer." : error.message}`;
      link.parentElement.querySelector(".error")?.remove();
      link.after(reason);
      status.textContent = reason.textContent;
      delete link.dataset.asked;
      link.removeAttribute("aria-busy");
    }
  }

  const entries = (number) => { status.textContent = `${number} ${number === 1 ? "entry" : "entries"} added.`; };

  // The address names the folder that was opened last, so that the way back from a page leads to it.
  function remember(folder) {
    history.replaceState(null, "", folder ? `/pages?path=${encodeURIComponent(folder).replaceAll("%2F", "/")}` : "/pages");
  }

  map.addEventListener("toggle", (event) => {
    const folder = event.target;
    if (!(folder instanceof HTMLDetailsElement)) return;
    if (folder.open) remember(folder.dataset.folder);
    else if (document.activeElement?.parentElement === folder) remember(folder.parentElement.closest("details")?.dataset.folder);
    const unread = folder.querySelector(":scope > p > a[data-unread]");
    if (!folder.open || !unread) return;
    read(unread, (body) => {
      unread.parentElement.replaceWith(...body.childNodes);
      entries(folder.querySelectorAll(":scope > ul > li").length);
    });
  }, true);

  map.addEventListener("click", (event) => {
    const more = event.target.closest("a[data-more]");
    if (!more || event.ctrlKey || event.metaKey || event.shiftKey || event.button) return;
    event.preventDefault();
    read(more, (body) => {
      const added = [...body.querySelector("ul").children].filter((one) => !one.matches("[data-back]"));
      more.parentElement.replaceWith(...added);
      added[0]?.querySelector("a, summary")?.focus();
      entries(added.length);
    });
  });

  const here = document.getElementById("here");
  if (here && here.getBoundingClientRect().top > innerHeight - 80) here.scrollIntoView({ block: "center" });
})();
