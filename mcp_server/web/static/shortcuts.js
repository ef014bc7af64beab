// Keys that move to the search field, to a proposal or to a part of its decision, and keys that select proposals. No key decides: the
// button that a key moves to is pressed as usual.
"use strict";
(() => {
  const help = document.getElementById("shortcuts");
  const box = help?.querySelector("[data-shortcuts-off]");
  const off = () => localStorage.getItem("shortcuts") === "off";
  if (help) {
    help.hidden = false;
    box.checked = off();
    box.addEventListener("change", () => localStorage.setItem("shortcuts", box.checked ? "off" : "on"));
  }

  const types = (element) => element.isContentEditable || element.matches("input:not([type=checkbox]), textarea, select");

  // On a list, and where several are shown, the next or previous proposal is the one after or before the one that has the focus.
  const several = ".card, .one-of-several";
  function step(by) {
    const links = [...document.querySelectorAll(".card h2 a, .one-of-several > h2 a")];
    const at = links.findIndex((link) => link.closest(several).contains(document.activeElement));
    const to = at < 0 ? (by > 0 ? 0 : links.length - 1) : at + by;
    links[to]?.focus();
    return links.length > 0;
  }

  const boxes = (part) => [...part.querySelectorAll("[data-choose]")];
  function select(chosen, checked) {
    for (const box of chosen) box.checked = checked;
    return chosen.length > 0;
  }

  function pressed(key) {
    if (key === "/") {
      const field = document.querySelector("[data-find]");
      field?.focus();
      field?.select();
      return field !== null;
    }
    if (!help) return false;
    if (key === "*") {
      const all = boxes(document);
      return select(all, !all.every((box) => box.checked));
    }
    if (key === "x") {
      const here = document.activeElement?.closest(several);
      return here ? select(boxes(here), !boxes(here)[0]?.checked) : false;
    }
    if (key === "?") {
      help.open = true;
      help.querySelector("summary").focus();
      return true;
    }
    const target = document.querySelector(`[data-key="${CSS.escape(key)}"]:not(:disabled)`);
    if (!target) return key === "j" ? step(1) : key === "k" ? step(-1) : false;
    if (target.matches("[rel]")) {
      target.click();
    } else if (target.matches("summary")) {
      target.parentElement.open = true;
      target.parentElement.querySelector("textarea").focus();
    } else {
      target.focus();
    }
    return true;
  }

  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || event.isComposing || event.repeat) return;
    if (off() || types(event.target)) return;
    if ("jkarcx*?/".includes(event.key) && pressed(event.key)) event.preventDefault();
  });
})();
