// Before anything is drawn: the colours that were chosen here or in the console.
"use strict";

try {
  document.documentElement.dataset.theme = localStorage.getItem("theme") ?? "";
} catch {
  // A browser that keeps nothing has the colours of the system.
}
