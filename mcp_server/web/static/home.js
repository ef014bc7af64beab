// Large knowledge bases are counted after the first view: this fetches the page again until the figures are there.
"use strict";
(() => {
  const AGAIN_MS = 700;
  const MOST = 40;
  let times = 0;

  async function look() {
    if (document.querySelector("[data-counting]") === null || times++ >= MOST) return;
    try {
      const answer = await fetch(location.href, { credentials: "same-origin" });
      if (!answer.ok) return;
      const page = new DOMParser().parseFromString(await answer.text(), "text/html");
      const figures = page.querySelector("[data-figures]");
      if (figures && figures.querySelector("[data-counting]") === null) {
        document.querySelector("[data-figures]").replaceWith(figures);
        return;
      }
    } catch {
      // The server did not answer. Loading the page again shows the figures.
    }
    setTimeout(look, AGAIN_MS);
  }

  setTimeout(look, AGAIN_MS);
})();
