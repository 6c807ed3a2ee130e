// Searches search.json, which has every section of every page. All words have
// to be in a section; those with the words in their heading come first.
"use strict";

(() => {
  const here = document.currentScript.src;
  const input = document.getElementById("search");
  const found = document.getElementById("found");
  const most = 12;
  let sections;

  function score(section, words) {
    const heading = (section.heading + " " + section.page).toLowerCase();
    const all = heading + " " + section.text.toLowerCase();
    if (!words.every((word) => all.includes(word))) return 0;
    return 1 + words.filter((word) => heading.includes(word)).length;
  }

  function show(words) {
    const hits = words.length === 0 ? [] : sections
      .map((section) => ({ section, score: score(section, words) }))
      .filter((hit) => hit.score > 0)
      .sort((a, b) => b.score - a.score)
      .slice(0, most);
    found.replaceChildren(...hits.map(({ section }) => {
      const link = document.createElement("a");
      link.href = new URL(section.path, here).href;
      link.textContent = section.page === section.heading ? section.page : section.page + ": " + section.heading;
      const item = document.createElement("li");
      item.append(link);
      return item;
    }));
  }

  input.hidden = false;
  input.addEventListener("input", async () => {
    sections = sections || await (await fetch(new URL("search.json", here))).json();
    show(input.value.toLowerCase().split(/\s+/).filter(Boolean));
  });
  document.addEventListener("keydown", (event) => {
    if (event.key === "/" && document.activeElement !== input) {
      event.preventDefault();
      input.focus();
    }
  });
})();
