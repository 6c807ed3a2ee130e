import { useQueryClient } from "@tanstack/react-query";
import { useState, type FormEvent } from "react";
import { signIn, type SignIn } from "../api/client.js";
import { took } from "../api/me.js";
import { Button, look } from "../ui/button.js";
import { Field } from "../ui/field.js";
import { ErrorNote } from "../ui/notes.js";
import { Text } from "../ui/text.js";

/** again: the page of who was signed in waits below. The provider signs in beside it then, in a tab of its own. */
export function SignInPage({ ways, again }: { ways: SignIn["ways"]; again?: string | undefined }) {
  const cache = useQueryClient();
  const [withKey, setWithKey] = useState(!ways.includes("password"));
  const [error, setError] = useState<unknown>();
  const [busy, setBusy] = useState(false);
  const submit = async (event: FormEvent<HTMLFormElement>) => {
    event.preventDefault();
    const form = new FormData(event.currentTarget);
    const text = (name: string) => String(form.get(name) ?? "");
    setBusy(true);
    try {
      took(cache, await signIn(withKey ? { api_key: text("api_key") } : { name: text("name"), password: text("password") }));
    } catch (err) {
      setError(err);
      setBusy(false);
    }
  };
  return (
    <main className="mx-auto flex max-w-sm flex-col gap-4 px-4 pt-[16vh]">
      <h1 className="text-lg font-semibold">Sign in to Sandkasten</h1>
      {again !== undefined && (
        <p>
          Your sign-in has ended. Sign in again as <Text of={again} />, and you go on where you were, with what you have not saved.
        </p>
      )}
      <form onSubmit={submit} className="flex flex-col gap-3 rounded-lg border border-line bg-raised p-4">
        {withKey ? (
          <Field label="API key" name="api_key" type="password" autoComplete="off" required autoFocus hint="It is exchanged for a cookie at once, and kept nowhere." />
        ) : (
          <>
            <Field label="Name" name="name" autoComplete="username" required autoFocus />
            <Field label="Password" name="password" type="password" autoComplete="current-password" required />
          </>
        )}
        <ErrorNote error={error} />
        <Button kind="main" type="submit" disabled={busy}>
          Sign in
        </Button>
      </form>
      <div className="flex flex-wrap gap-2">
        {ways.includes("password") && ways.includes("api_key") && (
          <Button kind="bare" onClick={() => setWithKey(!withKey)}>
            {withKey ? "Use a name and a password" : "Use an API key"}
          </Button>
        )}
        {ways.includes("oidc") && (
          <a href="/v1/auth/oidc/start" target={again === undefined ? undefined : "_blank"} className={look("bare")}>
            Sign in with the provider
          </a>
        )}
      </div>
    </main>
  );
}
