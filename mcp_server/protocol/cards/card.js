// The view side of MCP Apps (https://github.com/modelcontextprotocol/ext-apps, 2026-01-26): it shows one tool's result and asks the
// host for nothing but to open a link. All text comes from pages and hosts, so it is only ever put in as text.
"use strict";
(() => {
  const PROTOCOL = "2026-01-26", ABOUT = "io.github.knowledge-forge/card";
  const main = document.querySelector("main");
  let asked = 0, opensLinks = false;
  const waiting = new Map();

  const send = (message) => window.parent.postMessage({ jsonrpc: "2.0", ...message }, "*");
  const request = (method, params) => new Promise((resolve) => {
    waiting.set(++asked, resolve);
    send({ id: asked, method, params });
  });

  // Characters that change the order of text, or that nobody sees, are spelled out.
  const plain = (text) => String(text ?? "").replace(/[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u061c\u180e\u200b-\u200f\u202a-\u202e\u2060-\u2069\ufeff]/g,
    (sign) => `[U+${sign.codePointAt(0).toString(16).toUpperCase().padStart(4, "0")}]`);

  const element = (name, text, kind) => {
    const made = document.createElement(name);
    if (kind) made.className = kind;
    if (text !== undefined) { made.dir = "auto"; made.textContent = plain(text); }
    return made;
  };

  const link = (text, address) => {
    let url;
    try { url = new URL(address); } catch { return element("span", ""); }
    if (url.protocol !== "https:" && url.protocol !== "http:") return element("span", "");
    if (!opensLinks) return element("span", `${text}: ${url.href}`, "faint");
    const made = element("a", text);
    made.href = url.href;
    made.addEventListener("click", (event) => { event.preventDefault(); request("ui/open-link", { url: url.href }); });
    return made;
  };

  // Half of a pair of code units has no place in an address, and encodeURIComponent would throw.
  const part = (text) => encodeURIComponent(String(text).replace(/[\ud800-\udbff](?![\udc00-\udfff])|(?<![\ud800-\udbff])[\udc00-\udfff]/g, "\ufffd"));
  const onSite = (about, path) => (about.site ? `${about.site.replace(/\/$/, "")}${path}` : "");
  const count = (number, one, many) => `${number} ${number === 1 ? one : many}`;

  const diff = (text) => {
    const made = element("pre", undefined, "diff");
    made.tabIndex = 0;
    made.setAttribute("aria-label", "Changes, line by line");
    for (const line of String(text).split("\n")) {
      const kind = line.startsWith("+") && !line.startsWith("+++") ? "added" : line.startsWith("-") && !line.startsWith("---") ? "removed" : "";
      made.append(element("span", line || " ", kind));
    }
    return made;
  };

  const VERDICTS = { sufficient: "These passages probably answer the question.", partial: "These passages answer a part of it.", lost: "Nothing here answers it for sure." };
  const cards = {
    hits(content, about) {
      const hits = content.hits ?? [];
      const pages = new Set(hits.map((hit) => hit.path)).size;
      main.append(element("h1", hits.length ? `${count(hits.length, "passage", "passages")} on ${count(pages, "page", "pages")}` : "Nothing was found"));
      main.append(element("p", VERDICTS[content.scent?.level] ?? "", "faint"));
      const list = element("ol");
      for (const hit of hits) {
        const item = element("li"), where = onSite(about, `/page?path=${part(hit.path)}#line-${Number(hit.line_start) || 1}`);
        item.append(element("strong", hit.title), element("span", ` ${hit.section}`, "faint"));
        item.append(element("p", hit.snippet, "snippet"));
        const below = element("p", undefined, "faint");
        below.append(element("span", `${hit.path}, lines ${hit.line_start} to ${hit.line_end}. ${Math.round(100 * hit.score)} % likely to answer. `));
        if (where) below.append(link("Open the page", where));
        item.append(below);
        if (hit.tainted) item.append(element("p", "This text comes from a place that nobody vouched for.", "warn"));
        list.append(item);
      }
      main.append(list);
    },

    proposal(content, about) {
      const proposal = content.proposal;
      const STATES = { pending: "Waits for a person", executed: "Approved and done", rejected: "Rejected", expired: "Expired", withdrawn: "Withdrawn", superseded: "Replaced by another proposal", failed: "Approved, but it could not be done" };
      const DONE = { done: "Written", partial: "Written in part", unchanged: "Nothing to change", conflict: "Not written: there is a conflict", analysis: "Not written yet: there are questions" };
      const [sentence, ...rest] = String(proposal?.preview ?? "").split("\n");
      main.append(element("h1", proposal ? (STATES[proposal.state] ?? proposal.state) : (DONE[content.status] ?? "No proposal is open")));
      main.append(element("p", [sentence, content.path].filter(Boolean)[0] ?? ""));
      if (proposal?.why) main.append(element("p", proposal.why, "faint"));
      if (proposal?.decision) main.append(element("p", `${proposal.decision.approved ? "Approved" : "Rejected"} by ${proposal.decision.by}${proposal.decision.note ? `: ${proposal.decision.note}` : ""}`));
      const changes = content.diff || rest.join("\n");
      if (changes) main.append(diff(changes));
      const below = element("p");
      if (proposal?.review_url) below.append(link("Review it on the site", proposal.review_url));
      else if (content.path && content.status !== "proposed" && about.site) below.append(link("Open the page's history", onSite(about, `/history?path=${part(content.path)}`)));
      main.append(below);
    },

    journey(content, about) {
      main.append(element("h1", `${content.agent ?? "Journey"}: ${content.state ?? ""}`));
      const phases = about.phases ?? [];
      const done = phases.filter((phase) => phase.state === "done").length;
      main.append(element("p", phases.length ? `${done} of ${count(phases.length, "phase", "phases")} done` : content.phase ?? "", "faint"));
      const list = element("ol");
      const WORDS = { done: "done", now: "now", open: "to come" };
      for (const phase of phases) {
        const item = element("li", undefined, phase.state === "now" ? "now" : "");
        if (phase.state === "now") item.setAttribute("aria-current", "step");
        item.append(element("span", phase.name), element("span", ` ${WORDS[phase.state] ?? ""}${phase.visits > 1 ? `, ${phase.visits} visits` : ""}`, "faint"));
        list.append(item);
      }
      main.append(list);
      const where = onSite(about, `/journeys/${part(content.journey_id ?? "")}`);
      if (where && content.journey_id) { const below = element("p"); below.append(link("Open it on the site", where)); main.append(below); }
    },
  };

  const show = (result) => {
    main.replaceChildren();
    const content = result.structuredContent, about = result._meta?.[ABOUT] ?? {};
    if (result.isError || !content) {
      main.append(element("p", result.content?.find((part) => part.type === "text")?.text ?? "There is no result to show.", result.isError ? "warn" : ""));
    } else {
      cards[document.body.dataset.card](content, about);
    }
    tell();
  };

  const tell = () => send({ method: "ui/notifications/size-changed", params: { width: document.documentElement.scrollWidth, height: Math.ceil(document.body.getBoundingClientRect().height) } });

  const dress = (context) => {
    if (context?.theme === "light" || context?.theme === "dark") document.documentElement.style.colorScheme = context.theme;
    for (const [name, value] of Object.entries(context?.styles?.variables ?? {})) {
      if (name.startsWith("--") && typeof value === "string") document.documentElement.style.setProperty(name, value);
    }
  };

  window.addEventListener("message", (event) => {
    const message = event.data;
    if (event.source !== window.parent || message?.jsonrpc !== "2.0") return;
    if (message.method === undefined) {
      waiting.get(message.id)?.(message.result ?? {});
      waiting.delete(message.id);
    } else if (message.method === "ui/notifications/tool-result") {
      show(message.params ?? {});
    } else if (message.method === "ui/notifications/tool-cancelled") {
      main.replaceChildren(element("p", "The call was cancelled."));
    } else if (message.method === "ui/notifications/host-context-changed") {
      dress(message.params);
    } else if (message.id !== undefined) {
      const known = message.method === "ui/resource-teardown" || message.method === "ping";
      send({ id: message.id, ...(known ? { result: {} } : { error: { code: -32601, message: "this card only shows" } }) });
    }
  });

  request("ui/initialize", { appInfo: { name: "knowledge-forge", version: "1" }, appCapabilities: {}, protocolVersion: PROTOCOL }).then((host) => {
    opensLinks = host.hostCapabilities?.openLinks !== undefined;
    dress(host.hostContext);
    send({ method: "ui/notifications/initialized", params: {} });
    new ResizeObserver(tell).observe(document.body);
  });
})();
