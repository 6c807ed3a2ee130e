/** Text that a sandbox or another user may have chosen. What would change how it reads is shown as a mark. */

/** What has no width of its own or moves its neighbours: controls, formats, separators, and all that fonts are to leave out. */
export const hidden = /[\p{Cc}\p{Cf}\p{Zl}\p{Zp}\p{Default_Ignorable_Code_Point}]/gu;

export function plain(text: string): string {
  return text.replace(hidden, (c) => (c === "\n" ? "\u240a" : c === "\t" ? "\u2409" : `\u27e8${c.codePointAt(0)!.toString(16).padStart(4, "0")}\u27e9`));
}

/** As plain, for text of several lines: their ends and tabs stay what they are. */
export const marked = (text: string) => text.replace(hidden, (c) => (c === "\n" || c === "\t" ? c : plain(c)));

export function Text({ of, className }: { of: string; className?: string }) {
  return (
    <bdi className={className} title={plain(of)}>
      {plain(of)}
    </bdi>
  );
}
