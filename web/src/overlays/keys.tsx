/** Which keys there are, and whether the single ones do anything. */
import { Button } from "../ui/button.js";
import { Dialog } from "../ui/dialog.js";
import { Kbd, paletteKeys, setSingleKeys, singleKeys, terminalKeys } from "../ui/keys.js";
import { usePlaces } from "../places.js";

const groupsOf = (places: ReturnType<typeof usePlaces>): { name: string; keys: [string, string][] }[] => [
  {
    name: "Everywhere",
    keys: [
      [paletteKeys, "Commands, pages and sessions"],
      ["?", "These keys"],
      ["/", "The page's search"],
      ["n", "New session"],
      ["z", "Undo, while a notice offers it"],
      ["Esc", "Close what is open"],
    ],
  },
  { name: "Go to", keys: [...places.map(({ key, name }): [string, string] => [`g ${key}`, name]), ["g d", "Documentation"]] },
  {
    name: "In tables",
    keys: [
      ["j or \u2193", "Next row"],
      ["k or \u2191", "Row before"],
      ["Enter or o", "Open the row, or go to its buttons"],
      ["x", "Choose the row"],
    ],
  },
  { name: "In a session", keys: [["1 to 9, 0", "Its tabs, from the left"], ["b", "Its notebook"]] },
  {
    name: "In a notebook",
    keys: [
      ["Shift+Enter", "Run the cell, and go to the next; Ctrl+Enter stays, Alt+Enter adds one"],
      ["Enter, Esc", "Edit the cell, leave it"],
      ["a, b", "A cell above, below"],
      ["m, y", "Text, code"],
      ["d d, z", "Delete the cell, bring it back"],
      ["i i, 0 0", "Interrupt, restart the context"],
    ],
  },
  { name: "In a terminal", keys: Object.values(terminalKeys).map(({ keys, what }): [string, string] => [keys, what]) },
];

export function KeysDialog({ onClose }: { onClose: () => void }) {
  const on = singleKeys.use();
  const groups = groupsOf(usePlaces());
  return (
    <Dialog open onClose={onClose} title="Keyboard shortcuts" wide light>
      <label className="mb-4 flex items-start gap-2">
        <input type="checkbox" className="mt-1" checked={on} onChange={(event) => setSingleKeys(event.target.checked)} />
        <span>
          Shortcuts of single keys
          <span className="block text-muted">Turn them off if you use speech input, or press keys by accident. {paletteKeys}, arrows, Enter and Escape stay. This browser remembers it.</span>
        </span>
      </label>
      <div className="grid gap-x-8 gap-y-4 sm:grid-cols-2">
        {groups.map(({ name, keys }) => (
          <section key={name} aria-label={name}>
            <h3 className="mb-1 font-medium">{name}</h3>
            <dl className="grid grid-cols-[minmax(88px,auto)_1fr] gap-x-3 gap-y-1">
              {keys.map(([key, what]) => (
                <div key={key} className="contents">
                  <dt>
                    <Kbd>{key}</Kbd>
                  </dt>
                  <dd>{what}</dd>
                </div>
              ))}
            </dl>
          </section>
        ))}
      </div>
      <p className="mt-4 text-muted">Single keys do nothing while you type in a field. In a terminal and in the editor of files none of the others does anything.</p>
      <div className="mt-4 flex justify-end">
        <Button onClick={onClose}>Close</Button>
      </div>
    </Dialog>
  );
}
