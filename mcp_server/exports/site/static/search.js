// Searches the words that were counted when the site was made. Loads the shard of a word when it is first typed.
"use strict";
const field = document.getElementById("q"), results = document.getElementById("results"), status = document.getElementById("status");
const SHARDS = 32, MOST = 50, LONGEST = 200, MOST_WORDS = 12, LONGEST_WORD = 40;
const WIDE = /[\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af]/gu;
const loading = new Map(), shards = new Map();

function load(name) {
  if (!loading.has(name)) loading.set(name, new Promise((done, failed) => {
    const script = document.createElement("script");
    script.src = `search/${name}.js`;
    script.onload = done;
    script.onerror = failed;
    document.head.append(script);
  }));
  return loading.get(name);
}

function wordsIn(text) {
  const folded = text.slice(0, LONGEST).toLowerCase().replaceAll("ß", "ss").normalize("NFKD").replace(/\p{Mn}/gu, "");
  return (folded.match(/[\p{L}\p{N}\p{M}_]+/gu) ?? []).flatMap((word) => word.match(WIDE) ?? [word.slice(0, LONGEST_WORD)]).slice(0, MOST_WORDS);
}

function shardOf(word) {
  const name = `words${word.codePointAt(0) % SHARDS}`;
  if (!shards.has(name)) shards.set(name, new Map(globalThis.forge[name]));
  return shards.get(name);
}

async function ranked(words) {
  await Promise.all([load("pages"), ...words.map((word) => load(word.codePointAt(0) % SHARDS))]);
  const totals = new Map();
  words.forEach((word, place) => {
    const shard = shardOf(word);
    const best = new Map();
    const add = (found, share) => {
      for (let at = 0; at < found.length; at += 2) best.set(found[at], Math.max(best.get(found[at]) ?? 0, found[at + 1] * share));
    };
    if (shard.has(word)) add(shard.get(word), 1);
    // The last word may not be complete yet.
    if (place === words.length - 1 && word.length > 1)
      for (const [other, found] of shard) if (other.startsWith(word) && other !== word) add(found, word.length / other.length);
    for (const [page, weight] of best) {
      const [had, sum] = totals.get(page) ?? [0, 0];
      totals.set(page, [had + 1, sum + weight]);
    }
  });
  return [...totals].sort(([, [a, x]], [, [b, y]]) => b - a || y - x).map(([page]) => page);
}

let asked = 0;
async function search() {
  const mine = ++asked, words = wordsIn(field.value);
  const found = words.length ? await ranked(words).catch(() => null) : [];
  if (mine !== asked) return;
  results.replaceChildren();
  if (found === null) { status.textContent = "The files of the search are missing beside this page."; return; }
  status.textContent = words.length ? `${found.length} page${found.length === 1 ? "" : "s"}` : "";
  for (const number of found.slice(0, MOST)) {
    const [title, place, summary] = globalThis.forge.pages[number];
    const item = document.createElement("li"), link = document.createElement("a"), told = document.createElement("p"), name = document.createElement("bdi");
    link.href = place.split("/").map(encodeURIComponent).join("/");
    name.textContent = title;
    link.append(name);
    told.className = "faint";
    told.textContent = summary;
    item.append(link, told);
    results.append(item);
  }
}

field.value = new URLSearchParams(location.search).get("q") ?? "";
field.addEventListener("input", search);
field.form.addEventListener("submit", (event) => { event.preventDefault(); search(); });
document.getElementById("search").hidden = false;
if (field.value) search();
field.focus();
