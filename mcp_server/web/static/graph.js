// The whole graph of links on a canvas: move, zoom, look at a page's links, find a page, open it.
// Without this script the page shows the largest pages as a picture, and lists.
"use strict";

(() => {
  const frame = document.querySelector("[data-graph]");
  if (!frame) return;

  const MARGIN = 0.25; // of the frame's size, drawn beyond each edge, so that moving shows no gap
  const SLICE_MS = 7; // of drawing in one frame
  const IDLE_MS = 130; // without a movement, until the picture is drawn sharply again
  const MOST_SHOWN = 2000; // links of one page that are highlighted
  const COLOURS = 8;
  const still = new Intl.NumberFormat("en");

  const make = (tag, attributes = {}, text = "") => {
    const element = document.createElement(tag);
    for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
    element.textContent = text;
    return element;
  };

  // --- what is on the page ---------------------------------------------------------------------------------------------

  const surface = make("div", { class: "graph-surface" });
  let shown = make("canvas", { class: "graph-layer" });
  let hidden = make("canvas", { class: "graph-layer", hidden: "" });
  const marks = make("canvas", {
    class: "graph-layer graph-marks", tabindex: "0", role: "application",
    "aria-label": "Graph of links. Arrow keys move it, plus and minus zoom, 0 shows all of it. Find a page by its name above. The lists below have pages as links.",
  });
  const tools = make("form", { class: "graph-tools", role: "search", "aria-label": "Page in the graph" });
  const label = make("label", { for: "graph-find" }, "Find in the graph");
  const field = make("input", { id: "graph-find", type: "search", list: "graph-names", autocomplete: "off", placeholder: "Title or path" });
  const names = make("datalist", { id: "graph-names" });
  const choose = make("button", {}, "Go to");
  const button = (text, title) => make("button", { type: "button", "aria-label": title, title }, text);
  const closer = button("+", "Zoom in"), further = button("\u2212", "Zoom out"), all = button("All", "Show all pages");
  const told = make("p", { class: "graph-told", role: "status" });
  const panel = make("div", { class: "graph-panel" });

  tools.append(label, field, names, choose, closer, further, all);
  surface.append(shown, hidden, marks);

  // --- the graph -------------------------------------------------------------------------------------------------------

  let graph = null;
  let tag = "";

  function understood(held) {
    const count = held.paths.length;
    const x = Float32Array.from(held.x), y = Float32Array.from(held.y), ends = Uint32Array.from(held.edges);
    const degree = new Uint32Array(count);
    for (const end of ends) degree[end] += 1;
    // The links of page n are at[n] to at[n + 1] in `near`; those that lead to it have their sign in `inward`.
    const at = new Uint32Array(count + 1);
    for (let n = 0; n < count; n += 1) at[n + 1] = at[n] + degree[n];
    const next = at.slice(), near = new Uint32Array(ends.length), inward = new Uint8Array(ends.length);
    for (let e = 0; e < ends.length; e += 2) {
      const a = ends[e], b = ends[e + 1];
      near[next[a]++] = b;
      inward[next[b]] = 1;
      near[next[b]++] = a;
    }
    const radius = Float32Array.from(degree, (links) => 4 + 1.7 * Math.sqrt(links));
    const order = Uint32Array.from(degree.keys()).sort((a, b) => degree[b] - degree[a] || a - b);
    const byColour = Array.from({ length: COLOURS }, () => []);
    for (const n of order) byColour[held.of[n]].push(n);
    const box = [Infinity, Infinity, -Infinity, -Infinity];
    for (let n = 0; n < count; n += 1) {
      box[0] = Math.min(box[0], x[n]); box[1] = Math.min(box[1], y[n]);
      box[2] = Math.max(box[2], x[n]); box[3] = Math.max(box[3], y[n]);
    }
    const made = { ...held, count, x, y, ends, degree, at, near, inward, radius, order, byColour, box };
    made.cells = cellsOf(made);
    return made;
  }

  // Pages by square, to find those under the pointer.
  const CELL = 60;
  function cellsOf({ count, x, y }) {
    const cells = new Map();
    for (let n = 0; n < count; n += 1) {
      const key = `${Math.floor(x[n] / CELL)},${Math.floor(y[n] / CELL)}`;
      const there = cells.get(key);
      if (there) there.push(n);
      else cells.set(key, [n]);
    }
    return cells;
  }

  const nameOf = (n) => graph.titles[n] || graph.names[n] || graph.paths[n];
  const pathOf = (n) => graph.names[n] || graph.paths[n];
  const addressed = (place, n) => `${place}?path=${encodeURIComponent(wellFormed(graph.paths[n])).replaceAll("%2F", "/")}`;
  // Half of a surrogate pair has no address.
  const wellFormed = (text) => (text.isWellFormed && !text.isWellFormed() ? text.toWellFormed() : text);

  // --- the view --------------------------------------------------------------------------------------------------------

  const view = { x: 0, y: 0, scale: 1 };
  let drawn = null; // the view of the layer that is shown
  let wide = 0, high = 0, ratio = 1, least = 0.01;
  let colours = [], ink = "", faint = "", sheet = "", way = "", accent = "";
  let over = -1, chosen = -1;
  const off = new Set(); // colours of folders that are left out, and ALONE
  const ALONE = -1;
  const isOff = (n) => off.has(graph.of[n]) || (graph.degree[n] === 0 && off.has(ALONE));

  function readColours() {
    const style = getComputedStyle(document.documentElement);
    const value = (name) => style.getPropertyValue(name).trim();
    colours = Array.from({ length: COLOURS }, (_, n) => value(`--c${n}`));
    [ink, faint, sheet, way, accent] = ["--ink", "--faint", "--sheet", "--way", "--accent"].map(value);
  }

  function measure() {
    const size = surface.getBoundingClientRect();
    wide = Math.max(1, size.width); high = Math.max(1, size.height);
    ratio = Math.min(2, window.devicePixelRatio || 1);
    for (const layer of [shown, hidden]) {
      layer.style.width = `${wide * (1 + 2 * MARGIN)}px`; layer.style.height = `${high * (1 + 2 * MARGIN)}px`;
      layer.style.left = `${-wide * MARGIN}px`; layer.style.top = `${-high * MARGIN}px`;
    }
    marks.style.width = `${wide}px`; marks.style.height = `${high}px`;
    marks.width = Math.round(wide * ratio); marks.height = Math.round(high * ratio);
  }

  function fit() {
    const [left, top, right, bottom] = graph.box;
    view.x = (left + right) / 2; view.y = (top + bottom) / 2;
    view.scale = Math.min((wide - 40) / Math.max(right - left, 1), (high - 40) / Math.max(bottom - top, 1), 1.2);
    least = view.scale / 4;
  }

  const across = (x) => (x - view.x) * view.scale + wide / 2;
  const down = (y) => (y - view.y) * view.scale + high / 2;
  const sizeOf = (n, scale) => Math.min(16, Math.max(1.3, graph.radius[n] * scale));

  function zoom(factor, sx = wide / 2, sy = high / 2) {
    const scale = Math.min(4, Math.max(least, view.scale * factor));
    view.x += (sx - wide / 2) * (1 / view.scale - 1 / scale);
    view.y += (sy - high / 2) * (1 / view.scale - 1 / scale);
    view.scale = scale;
    moved();
  }

  function move(dx, dy) {
    view.x -= dx / view.scale; view.y -= dy / view.scale;
    moved();
  }

  // --- drawing ---------------------------------------------------------------------------------------------------------
  // The picture is drawn a little larger than the frame, a few milliseconds in each frame. While it is moved or zoomed, the
  // browser moves the finished picture; when the movement ends, it is drawn sharply again.

  let work = null, asked = false, idle = 0, first = true;

  function moved() {
    place();
    clearTimeout(idle);
    idle = setTimeout(draw, IDLE_MS);
    if (drawn && !work && gapShows()) draw();
    ask();
  }

  function place() {
    if (!drawn) return;
    const zoomed = view.scale / drawn.scale;
    shown.style.transform =
      `translate(${(drawn.x - view.x) * view.scale}px, ${(drawn.y - view.y) * view.scale}px) scale(${zoomed})`;
  }

  function gapShows() {
    const zoomed = view.scale / drawn.scale;
    const room = (size) => size * ((0.5 + MARGIN) * zoomed - 0.5);
    return Math.abs(drawn.x - view.x) * view.scale > room(wide) || Math.abs(drawn.y - view.y) * view.scale > room(high);
  }

  function draw() {
    clearTimeout(idle);
    if (!graph) return;
    work = picture({ ...view });
    ask();
  }

  function ask() {
    if (asked) return;
    asked = true;
    requestAnimationFrame(() => {
      asked = false;
      if (work) step();
      mark();
    });
  }

  function step() {
    const until = performance.now() + SLICE_MS;
    let state;
    do state = work.next(); while (!state.done && performance.now() < until);
    if (!state.done && !(first && state.value === "pages")) { ask(); return; }
    // The first picture appears with the pages, before all links are there.
    [shown, hidden] = [hidden, shown];
    drawn = state.done ? state.value : { ...view };
    shown.hidden = false; hidden.hidden = true;
    place();
    if (state.done) work = null;
    if (first) { first = false; performance.mark("graph-drawn"); frame.dataset.drawn = "1"; draw(); }
    else if (state.done) frame.dataset.drawn = "all";
  }

  function* picture(at) {
    const canvas = hidden, pen = canvas.getContext("2d");
    const w = wide * (1 + 2 * MARGIN), h = high * (1 + 2 * MARGIN);
    canvas.width = Math.round(w * ratio); canvas.height = Math.round(h * ratio);
    pen.scale(ratio, ratio);
    const sx = (n) => (graph.x[n] - at.x) * at.scale + w / 2, sy = (n) => (graph.y[n] - at.y) * at.scale + h / 2;
    const { ends, of: colourOf } = graph;

    if (!first) {
      // Links of one folder have its colour. Those that are shorter than a dot or outside of the picture are left out.
      const bins = Array.from({ length: COLOURS + 1 }, () => []);
      let visible = 0;
      for (let e = 0; e < ends.length; e += 2) {
        const a = ends[e], b = ends[e + 1];
        if (off.size && (isOff(a) || isOff(b))) continue;
        const x1 = sx(a), y1 = sy(a), x2 = sx(b), y2 = sy(b);
        if ((x1 < 0 && x2 < 0) || (x1 > w && x2 > w) || (y1 < 0 && y2 < 0) || (y1 > h && y2 > h)) continue;
        if (Math.abs(x1 - x2) + Math.abs(y1 - y2) < 2.5) continue;
        bins[colourOf[a] === colourOf[b] ? colourOf[a] : COLOURS].push(x1, y1, x2, y2);
        visible += 1;
        if (e % 4000 === 0) yield "links";
      }
      pen.lineWidth = 0.8;
      pen.globalAlpha = Math.min(0.5, Math.max(0.045, 9 / Math.sqrt(visible + 1)));
      for (const [colour, bin] of [...bins.entries()].reverse()) {
        pen.strokeStyle = colour === COLOURS ? way : colours[colour];
        for (let from = 0; from < bin.length; from += 1200) {
          pen.beginPath();
          for (let i = from; i < Math.min(bin.length, from + 1200); i += 4) {
            pen.moveTo(bin[i], bin[i + 1]);
            pen.lineTo(bin[i + 2], bin[i + 3]);
          }
          pen.stroke();
          yield "links";
        }
      }
      pen.globalAlpha = 1;
    }

    for (const [colour, pages] of graph.byColour.entries()) {
      pen.fillStyle = colours[colour];
      if (off.has(colour)) continue;
      for (let from = 0; from < pages.length; from += 1500) {
        pen.beginPath();
        for (const n of pages.slice(from, from + 1500)) {
          const x = sx(n), y = sy(n), r = sizeOf(n, at.scale);
          if (x < -r || y < -r || x > w + r || y > h + r || isOff(n)) continue;
          if (r < 2) pen.rect(x - r, y - r, 2 * r, 2 * r);
          else { pen.moveTo(x + r, y); pen.arc(x, y, r, 0, 2 * Math.PI); }
        }
        pen.fill();
        if (!first) yield "dots";
      }
    }

    const room = Math.round((w * h) / 24000), taken = [];
    for (const n of graph.order) {
      if (taken.length >= room) break;
      const x = sx(n), y = sy(n), r = sizeOf(n, at.scale);
      if (x < 0 || y < 0 || x > w || y > h || isOff(n)) continue;
      // A small dot has no name until it is looked at from nearer.
      if (r < 3.2 && taken.length > 30) break;
      write(pen, nameOf(n), x, y - r - 3, taken, graph.degree[n] > 0 ? ink : faint);
    }
    if (first) yield "pages";
    return at;
  }

  /** Write a name above a point unless it would lie on another one. */
  function write(pen, name, x, y, taken, colour, bold = false) {
    const most = wide < 500 ? 22 : 34;
    const text = name.length > most ? `${name.slice(0, most - 1)}\u2026` : name;
    const half = (text.length * 6.4) / 2, box = [x - half, y - 14, x + half, y + 2];
    if (taken.some((b) => box[0] < b[2] && b[0] < box[2] && box[1] < b[3] && b[1] < box[3])) return;
    taken.push(box);
    pen.font = `${bold ? 650 : 400} 12px system-ui, -apple-system, "Segoe UI", Roboto, "Noto Sans", sans-serif`;
    pen.textAlign = "center"; pen.lineJoin = "round"; pen.lineWidth = 3.5;
    pen.strokeStyle = sheet; pen.fillStyle = colour;
    pen.strokeText(text, x, y);
    pen.fillText(text, x, y);
  }

  /** Draw the links of the page under the pointer, or of the chosen one, over everything else. */
  function mark() {
    const pen = marks.getContext("2d"), n = over >= 0 ? over : chosen;
    pen.setTransform(ratio, 0, 0, ratio, 0, 0);
    pen.clearRect(0, 0, wide, high);
    if (!graph || n < 0) return;
    pen.globalAlpha = 0.78; pen.fillStyle = sheet;
    pen.fillRect(0, 0, wide, high);
    pen.globalAlpha = 1;
    const from = graph.at[n], to = Math.min(graph.at[n + 1], from + MOST_SHOWN), x = across(graph.x[n]), y = down(graph.y[n]);
    for (const inward of [1, 0]) {
      pen.beginPath();
      for (let i = from; i < to; i += 1) {
        if (graph.inward[i] !== inward || isOff(graph.near[i])) continue;
        pen.moveTo(x, y);
        pen.lineTo(across(graph.x[graph.near[i]]), down(graph.y[graph.near[i]]));
      }
      pen.strokeStyle = inward ? way : accent; pen.lineWidth = 1.4;
      pen.setLineDash(inward ? [5, 4] : []);
      pen.stroke();
    }
    pen.setLineDash([]);
    const there = [...new Set(graph.near.subarray(from, to))].filter((other) => !isOff(other)).sort((a, b) => graph.degree[b] - graph.degree[a]);
    const taken = [];
    for (const other of [...there.slice().reverse(), n]) {
      const r = Math.max(3, sizeOf(other, view.scale));
      pen.beginPath();
      pen.arc(across(graph.x[other]), down(graph.y[other]), r, 0, 2 * Math.PI);
      pen.fillStyle = colours[graph.of[other]];
      pen.fill();
      if (other === n) { pen.strokeStyle = ink; pen.lineWidth = 2; pen.stroke(); }
    }
    write(pen, nameOf(n), x, y - Math.max(3, sizeOf(n, view.scale)) - 4, taken, ink, true);
    for (const other of there.slice(0, 40)) {
      write(pen, nameOf(other), across(graph.x[other]), down(graph.y[other]) - sizeOf(other, view.scale) - 3, taken, ink);
    }
  }

  // --- looking at a page -----------------------------------------------------------------------------------------------

  function under(sx, sy) {
    if (!graph) return -1;
    const x = (sx - wide / 2) / view.scale + view.x, y = (sy - high / 2) / view.scale + view.y;
    const reach = Math.max(9 / view.scale, 0), largest = Math.min(16 / view.scale, 400);
    const far = Math.min(Math.ceil(Math.max(reach, largest) / CELL), 12);
    let best = -1, nearest = Infinity;
    for (let i = -far; i <= far; i += 1) {
      for (let j = -far; j <= far; j += 1) {
        for (const n of graph.cells.get(`${Math.floor(x / CELL) + i},${Math.floor(y / CELL) + j}`) || []) {
          const away = Math.hypot(graph.x[n] - x, graph.y[n] - y) - sizeOf(n, view.scale) / view.scale;
          if (away < reach / 2 && away < nearest && !isOff(n)) { best = n; nearest = away; }
        }
      }
    }
    return best;
  }

  function counts(n) {
    let back = 0;
    for (let i = graph.at[n]; i < graph.at[n + 1]; i += 1) back += graph.inward[i];
    return [back, graph.at[n + 1] - graph.at[n] - back];
  }

  function point(n) {
    if (n === over) return;
    over = n;
    marks.classList.toggle("on-page", n >= 0);
    if (n >= 0) { const [back, out] = counts(n); told.textContent = `${nameOf(n)} (${pathOf(n)}): ${still.format(back)} in, ${still.format(out)} out`; }
    else told.textContent = chosen >= 0 ? "" : summary();
    ask();
  }

  const summary = () => `${still.format(graph.count)} pages, ${still.format(graph.ends.length / 2)} links${graph.provisional ? ". The places are provisional, by folder: the graph is still being laid out." : ""}`;

  /** Show a page with its links below the graph, where the keyboard and screen readers reach them. */
  function pick(n) {
    chosen = n;
    panel.replaceChildren();
    if (n < 0) { ask(); return; }
    const [back, out] = counts(n), head = make("p", { class: "graph-page" });
    const title = make("a", { href: addressed("/page", n) });
    title.append(make("bdi", {}, nameOf(n)));
    const where = make("bdi", { class: "faint" }, pathOf(n));
    head.append(title, " ", where, " ", make("a", { href: addressed("/graph", n) }, "links"));
    panel.append(head);
    for (const [inward, count, words] of [[1, back, "Linked from"], [0, out, "Links to"]]) {
      const line = make("p", {}, `${words} ${still.format(count)}: `);
      const others = [];
      for (let i = graph.at[n]; i < graph.at[n + 1] && others.length < 12; i += 1) {
        if (graph.inward[i] === inward) others.push(graph.near[i]);
      }
      others.forEach((other, place) => {
        const link = make("a", { href: addressed("/graph", other) });
        link.append(make("bdi", {}, nameOf(other)));
        line.append(place ? ", " : "", link);
      });
      if (count > others.length) line.append(`, and ${still.format(count - others.length)} more`);
      if (count) panel.append(line);
    }
    told.textContent = `${nameOf(n)}: ${still.format(back)} in, ${still.format(out)} out`;
    ask();
  }

  function goTo(n) {
    view.x = graph.x[n]; view.y = graph.y[n];
    view.scale = Math.max(view.scale, 0.55);
    over = -1;
    pick(n);
    moved();
  }

  const open = (n, apart) => {
    if (apart) window.open(addressed("/page", n), "_blank", "noopener");
    else location.assign(addressed("/page", n));
  };

  // --- the person ------------------------------------------------------------------------------------------------------

  const fingers = new Map();
  let began = null, spread = 0;
  const here = (event) => { const box = marks.getBoundingClientRect(); return [event.clientX - box.left, event.clientY - box.top]; };

  marks.addEventListener("pointerdown", (event) => {
    marks.setPointerCapture(event.pointerId);
    fingers.set(event.pointerId, here(event));
    began = fingers.size === 1 ? here(event) : null;
    spread = 0;
  });
  marks.addEventListener("pointermove", (event) => {
    const at = here(event), was = fingers.get(event.pointerId);
    if (!was) { point(under(...at)); return; }
    fingers.set(event.pointerId, at);
    if (fingers.size === 2) {
      const [[ax, ay], [bx, by]] = fingers.values(), apart = Math.hypot(ax - bx, ay - by);
      if (spread) zoom(apart / spread, (ax + bx) / 2, (ay + by) / 2);
      spread = apart;
    }
    if (began && Math.hypot(at[0] - began[0], at[1] - began[1]) > 4) { began = null; point(-1); }
    if (!began) move((at[0] - was[0]) / fingers.size, (at[1] - was[1]) / fingers.size);
  });
  const released = (event) => {
    fingers.delete(event.pointerId);
    if (event.type === "pointerup" && began && !fingers.size) {
      const n = under(...here(event));
      // A finger cannot hover: its first touch shows the page, the second one opens it.
      if (n >= 0 && (event.pointerType === "mouse" || n === chosen)) open(n, event.ctrlKey || event.metaKey);
      else pick(n);
    }
    began = null;
  };
  marks.addEventListener("pointerup", released);
  marks.addEventListener("pointercancel", released);
  marks.addEventListener("pointerleave", () => point(-1));
  marks.addEventListener("wheel", (event) => {
    // At the end of the scale the wheel belongs to the page again.
    if (event.deltaY > 0 && view.scale <= least * 1.001) return;
    event.preventDefault();
    zoom(Math.exp(-Math.max(-120, Math.min(120, event.deltaY)) / 400), ...here(event));
  }, { passive: false });

  const KEYS = {
    ArrowLeft: () => move(60, 0), ArrowRight: () => move(-60, 0), ArrowUp: () => move(0, 60), ArrowDown: () => move(0, -60),
    "+": () => zoom(1.4), "=": () => zoom(1.4), "-": () => zoom(1 / 1.4), 0: () => { fit(); moved(); },
    Enter: () => { if (chosen >= 0) open(chosen, false); }, Escape: () => pick(-1),
  };
  marks.addEventListener("keydown", (event) => {
    if (!graph || event.ctrlKey || event.metaKey || event.altKey || !KEYS[event.key]) return;
    event.preventDefault();
    event.stopPropagation();
    KEYS[event.key]();
  });
  closer.addEventListener("click", () => zoom(1.4));
  further.addEventListener("click", () => zoom(1 / 1.4));
  all.addEventListener("click", () => { fit(); moved(); });

  /** Return the pages that match a text, best first: that is it, that begin with it, that contain it; then by links. */
  function matching(text, most) {
    const wanted = text.trim().toLowerCase(), ranks = [[], [], []];
    if (!wanted || !graph) return [];
    for (const n of graph.order) {
      const title = nameOf(n).toLowerCase(), path = graph.paths[n].toLowerCase();
      if (title === wanted || path === wanted) ranks[0].push(n);
      else if (title.startsWith(wanted)) ranks[1].push(n);
      else if (title.includes(wanted) || path.includes(wanted)) ranks[2].push(n);
    }
    return ranks.flat().slice(0, most);
  }
  field.addEventListener("input", () => {
    names.replaceChildren(...matching(field.value, 12).map((n) => make("option", { value: pathOf(n) }, nameOf(n))));
  });
  tools.addEventListener("submit", (event) => {
    event.preventDefault();
    const [found] = matching(field.value, 1);
    if (found !== undefined && isOff(found)) told.textContent = `${nameOf(found)} is left out. Its folder's box below the graph shows it.`;
    else if (found === undefined) told.textContent = `No page has \u201c${field.value.trim().slice(0, 80)}\u201d in its title or path.`;
    else goTo(found);
  });

  // --- loading ---------------------------------------------------------------------------------------------------------

  const pending = document.querySelector("[data-pending]");

  async function load(current) {
    const answer = await fetch(frame.dataset.graph + (current ? "?current=1" : ""), tag ? { headers: { "if-none-match": tag } } : {});
    if (answer.status === 304) return true;
    if (!(answer.headers.get("content-type") || "").includes("json")) throw new Error("you are no longer logged in. Load the page again.");
    const held = await answer.json();
    if (!answer.ok) throw new Error(held.error || `The server answered ${answer.status}.`);
    const fresh = !graph, sketch = !fresh && graph.provisional;
    tag = answer.headers.get("etag") || "";
    const was = chosen >= 0 ? graph.paths[chosen] : null;
    graph = understood(held);
    over = -1;
    chosen = was === null ? -1 : graph.paths.indexOf(was);
    if (fresh) begin();
    else {
      if (sketch) fit(); // every page has another place now
      pick(chosen);
      draw();
    }
    told.textContent = summary();
    if (graph.provisional && pending) {
      pending.textContent = "The picture is provisional: pages are placed by their folders until the graph is laid out by its links. The layout then takes its place.";
    }
    return answer.headers.get("x-graph-current") === "1";
  }

  /** Put a box to leave its pages out before each folder of the legend, and one for pages without links. */
  function filters() {
    const legend = document.querySelector(".drawn .legend") || frame.parentNode.appendChild(make("ul", { class: "legend" }));
    const lines = [...legend.children].map((line) => [line, Number(line.dataset.colour)]);
    if (graph.degree.includes(0)) {
      const line = legend.appendChild(make("li"));
      line.append("pages without links");
      lines.push([line, ALONE]);
    }
    for (const [line, colour] of lines) {
      const box = make("input", { type: "checkbox" }), label = make("label");
      box.checked = true;
      label.append(box, ...line.childNodes);
      line.append(label);
      box.addEventListener("change", () => {
        if (box.checked) off.delete(colour);
        else off.add(colour);
        draw();
      });
    }
  }

  function begin() {
    if (!graph.count) return;
    frame.replaceChildren(tools, surface, told, panel);
    filters();
    readColours();
    measure();
    fit();
    draw();
    new ResizeObserver(() => { measure(); draw(); }).observe(surface);
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => { readColours(); draw(); });
  }

  (async () => {
    try {
      if (!(await load(false))) await load(true);
      if (pending) pending.textContent = "The picture is up to date. Load the page again for the lists.";
    } catch (error) {
      told.textContent = `The graph can't be shown: ${error.message}`;
      if (!told.isConnected) frame.prepend(told);
    }
  })();
})();
