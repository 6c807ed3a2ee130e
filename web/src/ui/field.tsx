import { useId, type InputHTMLAttributes, type ReactNode, type SelectHTMLAttributes } from "react";
import { useHint } from "./keys.js";

const box = "h-8 w-full rounded border border-line bg-raised px-2 text-sm placeholder:text-muted";

function Labelled({ label, hint, id, children }: { label: string; hint?: string | undefined; id: string; children: ReactNode }) {
  if (label === "") return children; // it has an aria-label
  return (
    <div className="flex flex-col gap-1">
      <label htmlFor={id} className="text-xs text-muted">
        {label}
      </label>
      {children}
      {hint && <p className="text-xs text-muted">{hint}</p>}
    </div>
  );
}

export function Field({ label, hint, className = "", ...rest }: InputHTMLAttributes<HTMLInputElement> & { label: string; hint?: string }) {
  const id = useId();
  return (
    <Labelled label={label} hint={hint} id={id}>
      <input id={id} className={`${box} ${className}`} {...rest} />
    </Labelled>
  );
}

export function Choice({ label, hint, options, ...rest }: SelectHTMLAttributes<HTMLSelectElement> & { label: string; hint?: string; options: readonly string[] }) {
  const id = useId();
  return (
    <Labelled label={label} hint={hint} id={id}>
      <select id={id} className={box} {...rest}>
        {options.map((option) => (
          <option key={option}>{option}</option>
        ))}
      </select>
    </Labelled>
  );
}

export function Search({ label, ...rest }: InputHTMLAttributes<HTMLInputElement> & { label: string }) {
  const hint = useHint("/");
  return <input type="search" aria-label={label} className={`${box} max-w-72`} {...hint} {...rest} />;
}
