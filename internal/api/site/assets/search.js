// Searches search.json, which has every section of every page. All words have to be in a
// section. Guides come before records, as those of decisions; of each page there is the best
// section, and those with the words in their heading come first.
"use strict";

(() => {
  const here = document.currentScript.src;
  const input = document.getElementById("search");
  const found = document.getElementById("found");
  const count = document.getElementById("found-count");
  const most = 12;
  const around = 70; // characters of the text that a result shows on each side of the first word
  let sections;

  function score(section, words) {
    const heading = `${section.heading} ${section.page}`.toLowerCase();
    const all = `${heading} ${section.text.toLowerCase()}`;
    if (!words.every((word) => all.includes(word))) return 0;
    return 1 + words.filter((word) => heading.includes(word)).length;
  }

  /** marked is text, with the words in it marked. */
  function marked(text, words) {
    const lower = text.toLowerCase();
    const parts = [];
    let done = 0;
    while (done < text.length) {
      const next = words.map((word) => ({ word, at: lower.indexOf(word, done) })).filter(({ at }) => at >= 0).sort((a, b) => a.at - b.at)[0];
      if (!next) break;
      parts.push(text.slice(done, next.at), build("mark", {}, text.slice(next.at, next.at + next.word.length)));
      done = next.at + next.word.length;
    }
    return [...parts, text.slice(done)];
  }

  function excerpt(text, words) {
    const at = Math.max(0, Math.min(...words.map((word) => text.toLowerCase().indexOf(word)).filter((at) => at >= 0)));
    const from = Number.isFinite(at) ? Math.max(0, at - around) : 0;
    return `${from > 0 ? "\u2026" : ""}${text.slice(from, from + 2 * around)}${text.length > from + 2 * around ? "\u2026" : ""}`;
  }

  function result({ path, page, heading, text }, words) {
    const title = page === heading ? page : `${page}: ${heading}`;
    return build("a", { href: new URL(path, here).href }, build("strong", {}, ...marked(title, words)), build("span", {}, ...marked(excerpt(text, words), words)));
  }

  function show(words) {
    const best = new Map();
    for (const section of sections) {
      const hit = { section, score: score(section, words) };
      const page = section.path.split("#")[0];
      if (hit.score > (best.get(page)?.score ?? 0)) best.set(page, hit);
    }
    const hits = [...best.values()].sort((a, b) => (a.section.record ? 1 : 0) - (b.section.record ? 1 : 0) || b.score - a.score);
    found.replaceChildren(...hits.slice(0, most).map(({ section }) => result(section, words)));
    if (hits.length === 0) found.append(build("p", {}, "No section has all of these words. Try fewer, or the name of a field."));
    count.textContent = `${hits.length} pages found`;
    found.hidden = false;
  }

  function close() {
    found.hidden = true;
    found.replaceChildren();
    count.textContent = "";
  }

  async function search() {
    const words = input.value.toLowerCase().split(/\s+/).filter(Boolean);
    if (words.length === 0) return close();
    try {
      sections ??= await (await fetch(new URL("search.json", here))).json();
      show(words);
    } catch {
      found.replaceChildren(build("p", {}, "The index cannot be read; try again."));
      found.hidden = false;
    }
  }

  function move(event, by) {
    const stops = [input, ...found.querySelectorAll("a")];
    event.preventDefault();
    stops[Math.max(0, Math.min(stops.length - 1, stops.indexOf(document.activeElement) + by))].focus();
  }

  input.hidden = false;
  input.addEventListener("input", search);
  input.addEventListener("focus", () => found.hidden && search());
  input.parentElement.addEventListener("keydown", (event) => {
    if (event.key === "ArrowDown") move(event, 1);
    if (event.key === "ArrowUp") move(event, -1);
    if (event.key === "Enter" && document.activeElement === input) found.querySelector("a")?.click();
    if (event.key === "Escape") {
      close();
      input.value = "";
    }
  });
  found.addEventListener("click", (event) => event.target.closest("a") && close());
  document.addEventListener("click", (event) => !input.parentElement.contains(event.target) && close());
  document.addEventListener("keydown", (event) => {
    const typing = /^(INPUT|TEXTAREA|SELECT)$/.test(document.activeElement?.tagName ?? "");
    if (event.key === "/" && !typing && !event.ctrlKey && !event.metaKey && !event.altKey) {
      event.preventDefault();
      input.focus();
    }
  });
})();
