/** Parts of the page that are loaded when they are needed, and what is shown where that fails. */
import { Component, createElement, lazy, useState, type ComponentType, type ErrorInfo, type ReactNode } from "react";
import { Button } from "./button.js";
import { ErrorNote } from "./notes.js";

/** What a part of the page could not be loaded for, and what has it loaded again. */
class LateError extends Error {
  readonly newer: boolean;
  readonly again: () => void;

  constructor(found: "newer" | "same" | "away", again: () => void, cause: unknown) {
    super(found === "newer" ? "The daemon has a newer page than this one. Load the page again." : found === "away" ? "This part of the page could not be loaded: the daemon is away." : "This part of the page could not be loaded.", { cause });
    this.newer = found === "newer";
    this.again = again;
  }
}

/** pageNow compares the page that the daemon has with this one, by the name of its script, which changes with its content. */
async function pageNow(): Promise<"newer" | "same" | "away"> {
  const script = document.querySelector("script[type=module][src]")?.getAttribute("src");
  try {
    const answer = await fetch("/", { cache: "no-store" });
    if (!answer.ok) return "away";
    return script && !(await answer.text()).includes(script) ? "newer" : "same";
  } catch {
    return "away";
  }
}

/**
 * late is a component that is loaded when it is first shown, within a Boundary. Other than with React.lazy alone, loading that has
 * failed is tried again when the user asks for it.
 */
export function late<P extends object>(load: () => Promise<ComponentType<P>>): ((props: P) => ReactNode) & { preload: () => Promise<void> } {
  // What is there already is drawn at once: even a moment of something else would move what is around it.
  let loaded: ComponentType<P> | undefined;
  const fetched = async () => (loaded = await load());
  const begin = (retried: boolean): ComponentType<P> =>
    lazy(async () => {
      try {
        return { default: await fetched() };
      } catch (cause) {
        const found = await pageNow();
        // Chromium remembers that an import has failed, and does not ask the daemon a second time, but for a new page.
        if (retried && found === "same") window.location.reload();
        throw new LateError(found, () => (part = begin(true)), cause);
      }
    }) as unknown as ComponentType<P>;
  let part = begin(false);
  const Late = (props: P) => {
    const [now] = useState(() => loaded ?? part);
    return createElement(now, props);
  };
  return Object.assign(Late, { preload: () => fetched().then(() => {}, () => {}) });
}

/** Failed says what went wrong in a part of the page, in its place. */
export function Failed({ error, reset, onClose }: { error: unknown; reset: () => void; onClose?: (() => void) | undefined }) {
  const ofLoading = error instanceof LateError ? error : undefined;
  return (
    <div className="flex flex-wrap items-center gap-2 p-4">
      <ErrorNote error={error} />
      {ofLoading?.newer ? (
        <Button onClick={() => window.location.reload()}>Load the page again</Button>
      ) : (
        <Button
          onClick={() => {
            ofLoading?.again();
            reset();
          }}
        >
          Load again
        </Button>
      )}
      {onClose && (
        <Button kind="bare" onClick={onClose}>
          Close
        </Button>
      )}
    </div>
  );
}

/** Boundary keeps what goes wrong in a part of the page from taking the rest of it away. */
export class Boundary extends Component<{ children: ReactNode; onClose?: () => void }, { error?: unknown }> {
  override state: { error?: unknown } = {};

  static getDerivedStateFromError(error: unknown) {
    return { error };
  }

  override componentDidCatch(error: unknown, { componentStack }: ErrorInfo) {
    console.error(error, componentStack);
  }

  override render() {
    if (this.state.error === undefined) return this.props.children;
    return <Failed error={this.state.error} reset={() => this.setState({ error: undefined })} onClose={this.props.onClose} />;
  }
}
