/// <reference lib="esnext.disposable" preserve="true" />

/** The method that `await using` calls. Older engines have no symbol for it; compilers fall back to this name. */
export const asyncDispose: typeof Symbol.asyncDispose = Symbol.asyncDispose ?? Symbol.for("Symbol.asyncDispose");
