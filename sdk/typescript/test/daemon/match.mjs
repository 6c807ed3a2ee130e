// The patterns of sdk/contract/README.md.
import { isDeepStrictEqual } from "node:util";

const patterns = {
  $matches: (want, got) => typeof got === "string" && new RegExp(want).test(got),
  $contains: (want, got) => typeof got === "string" && got.includes(want),
  $length: (want, got) => (typeof got === "string" ? [...got] : Array.isArray(got) ? got : []).length === want,
  $at_least: (want, got) => typeof got === "number" && got >= want,
  $has: (want, got) => Array.isArray(got) && got.some((item) => matches(want, item)),
  $lacks: (want, got) => Array.isArray(got) && !got.some((item) => matches(want, item)),
};

export function matches(want, got) {
  if (Array.isArray(want)) {
    return Array.isArray(got) && got.length === want.length && want.every((item, i) => matches(item, got[i]));
  }
  if (typeof want !== "object" || want === null) {
    return isDeepStrictEqual(want, got);
  }
  return Object.entries(want).every(([name, field]) => {
    if (name in patterns) {
      return patterns[name](field, got);
    }
    if (name.startsWith("$")) {
      throw new Error(`unknown pattern ${name}`);
    }
    return typeof got === "object" && got !== null && matches(field, got[name]);
  });
}
