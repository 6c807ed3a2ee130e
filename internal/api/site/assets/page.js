// What every page has beside its text: the switch of colours, copy buttons, and tabs for
// what is there in several languages.
"use strict";

/** build makes an element. Its children become text, never markup. */
function build(tag, attributes = {}, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
  made.append(...children);
  return made;
}

/** kept is what the browser remembers, if it remembers anything. */
const kept = {
  get(name) {
    try {
      return localStorage.getItem(name);
    } catch {
      return null;
    }
  },
  set(name, value) {
    try {
      localStorage.setItem(name, value);
    } catch {
      // It is as chosen until the page is left.
    }
  },
};

function addThemeSwitch() {
  const root = document.documentElement;
  const button = document.getElementById("theme");
  const system = matchMedia("(prefers-color-scheme: dark)");
  const isDark = () => (root.dataset.theme ? root.dataset.theme === "dark" : system.matches);
  const label = () => {
    button.textContent = isDark() ? "\u2600" : "\u263e";
    button.setAttribute("aria-label", isDark() ? "Light colours" : "Dark colours");
  };
  button.addEventListener("click", () => {
    root.dataset.theme = isDark() ? "light" : "dark";
    kept.set("theme", root.dataset.theme);
    label();
  });
  system.addEventListener("change", label);
  label();
  button.hidden = false;
}

/** addCopy puts a button on a block of code. */
function addCopy(pre) {
  const button = build("button", { type: "button", class: "copy", "aria-label": "Copy: code" }, "copy");
  button.addEventListener("click", async () => {
    await navigator.clipboard.writeText(pre.textContent.replace(/\n$/, ""));
    button.textContent = "copied";
    setTimeout(() => (button.textContent = "copy"), 1500);
  });
  const frame = build("div", { class: "code" });
  pre.replaceWith(frame);
  frame.append(pre, button);
}

let groups = 0;

/** makeTabs turns the headings of a group into tabs. The choice holds for all groups. */
function makeTabs(group) {
  const number = groups++;
  const sections = [...group.children];
  const list = build("div", { role: "tablist", "aria-label": "Language" });
  const tabs = sections.map((section) => {
    const name = section.dataset.language;
    const id = `languages-${number}-${name}`;
    const tab = build("button", { type: "button", role: "tab", id, "aria-controls": `${id}-panel` }, section.firstElementChild.textContent);
    section.firstElementChild.remove();
    section.id = `${id}-panel`;
    section.setAttribute("role", "tabpanel");
    section.setAttribute("aria-labelledby", id);
    tab.addEventListener("click", () => {
      kept.set("language", name);
      const top = list.getBoundingClientRect().top;
      document.dispatchEvent(new CustomEvent("language", { detail: name }));
      markScrollers(); // once for all groups
      window.scrollBy(0, list.getBoundingClientRect().top - top); // the groups above have other heights now
    });
    return tab;
  });
  const show = (name) => {
    const chosen = sections.findIndex((section) => section.dataset.language === name);
    if (chosen < 0) return;
    sections.forEach((section, i) => {
      section.hidden = i !== chosen;
      tabs[i].setAttribute("aria-selected", String(i === chosen));
      tabs[i].tabIndex = i === chosen ? 0 : -1;
    });
  };
  list.addEventListener("keydown", (event) => {
    const at = tabs.indexOf(document.activeElement);
    const to = { ArrowRight: at + 1, ArrowLeft: at - 1, Home: 0, End: tabs.length - 1 }[event.key];
    if (to === undefined) return;
    event.preventDefault();
    const tab = tabs.at(to % tabs.length);
    tab.focus();
    tab.click();
  });
  list.append(...tabs);
  group.prepend(list);
  document.addEventListener("language", (event) => show(event.detail));
  show(sections[0].dataset.language);
  show(kept.get("language"));
}

/** markScrollers has the keyboard reach what is wider than its place. */
function markScrollers() {
  for (const wide of document.querySelectorAll("pre, .wide")) {
    if (wide.scrollWidth > wide.clientWidth || wide.scrollHeight > wide.clientHeight) wide.tabIndex = 0;
    else wide.removeAttribute("tabindex");
  }
}

function showCurrent() {
  const list = document.querySelector("nav.pages");
  const current = list.querySelector("[aria-current]");
  if (current) list.scrollTop = current.offsetTop - list.offsetTop - list.clientHeight / 2;
}

addThemeSwitch();
showCurrent();
document.querySelectorAll("main pre").forEach(addCopy);
document.querySelectorAll("main .languages").forEach(makeTabs);
markScrollers();
addEventListener("resize", markScrollers);
