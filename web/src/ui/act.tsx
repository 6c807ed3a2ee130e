import type { ComponentProps } from "react";
import { useWriter } from "../api/me.js";
import { Button } from "./button.js";

/** A button that changes something. It is not there for who may only read: the daemon would refuse. */
export function Act(props: ComponentProps<typeof Button>) {
  return useWriter() ? <Button {...props} /> : null;
}

/** A form that changes something, likewise. */
export function ActForm(props: ComponentProps<"form">) {
  return useWriter() ? <form {...props} /> : null;
}
