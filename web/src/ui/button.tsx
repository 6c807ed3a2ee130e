import type { ButtonHTMLAttributes, ReactNode } from "react";

const kinds = {
  main: "bg-accent text-on-accent border-transparent hover:opacity-90",
  plain: "bg-raised text-text border-line hover:bg-sunk",
  bad: "bg-raised text-bad border-line hover:bg-sunk",
  bare: "bg-transparent text-muted border-transparent hover:text-text hover:bg-sunk",
};

/** look is that of a button, also for links that a browser saves and for what asks for files. */
export const look = (kind: keyof typeof kinds = "plain") =>
  `inline-flex h-8 items-center justify-center gap-1.5 rounded border px-3 text-sm whitespace-nowrap disabled:opacity-50 ${kinds[kind]}`;

export function Button({ kind = "plain", className = "", ...rest }: ButtonHTMLAttributes<HTMLButtonElement> & { kind?: keyof typeof kinds; children: ReactNode }) {
  return (
    <button
      type="button"
      className={`${look(kind)} ${className}`}
      {...rest}
    />
  );
}
