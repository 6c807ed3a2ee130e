import { useSyncExternalStore } from "react";
import { Button } from "./button.js";

const root = document.documentElement;
root.dataset.theme = localStorage.getItem("theme") ?? "";

/** themeChanged tells what draws by itself that the colours are others now. */
export const themeChanged = new EventTarget();
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => themeChanged.dispatchEvent(new Event("change")));

const isDark = () => (root.dataset.theme ? root.dataset.theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches);

/** changeTheme goes from light colours to dark ones, or back, and this browser remembers it. */
export function changeTheme() {
  root.dataset.theme = isDark() ? "light" : "dark";
  localStorage.setItem("theme", root.dataset.theme);
  themeChanged.dispatchEvent(new Event("change"));
}

function onChange(act: () => void) {
  themeChanged.addEventListener("change", act);
  return () => themeChanged.removeEventListener("change", act);
}

export function ThemeButton() {
  const dark = useSyncExternalStore(onChange, isDark);
  return (
    <Button kind="bare" onClick={changeTheme} aria-label={dark ? "Light colours" : "Dark colours"}>
      {dark ? "\u2600" : "\u263e"}
    </Button>
  );
}
