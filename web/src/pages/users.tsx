/** Users, for admins, and keys: one's own, or those of a user. */
import { useQuery, useQueryClient } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import type { Key, NewKey, User } from "@sandkasten/sdk";
import { useState, type FormEvent } from "react";
import { useChange } from "../api/change.js";
import { client } from "../api/client.js";
import { useAdmin, useOperator } from "../api/me.js";
import { ActForm } from "../ui/act.js";
import { Button } from "../ui/button.js";
import { DeleteButton } from "../ui/confirm.js";
import { Copy } from "../ui/copy.js";
import { Dialog, FormButtons } from "../ui/dialog.js";
import { Choice, Field } from "../ui/field.js";
import { EmptyState, ErrorNote } from "../ui/notes.js";
import { Page } from "../ui/page.js";
import { Cell, Row, Table } from "../ui/table.js";
import { Text, plain } from "../ui/text.js";
import { Ago } from "../ui/time.js";

/** stateOf says whether a key still opens anything. */
function stateOf({ revokedAt, expiresAt }: Key): string {
  if (revokedAt) return "revoked";
  return expiresAt && Date.parse(expiresAt) <= Date.now() ? "expired" : "valid";
}

/** The quotas that can be set, by the names of the API. */
const quotas = { maxSessions: "Sessions", maxRunningSessions: "Running sessions", memoryMb: "Memory in MiB", cpu: "Processors", diskMb: "Disk in MiB", maxWorkspaces: "Workspaces", snapshotMb: "Snapshots in MiB", sessionSecondsPerMonth: "Seconds of sessions a month", networkMbPerMonth: "Network in MiB a month", maxImages: "Images of their own", imageMb: "Images in MiB" } as const;

export function UsersPage() {
  const admin = useAdmin();
  const cache = useQueryClient();
  const users = useQuery({ queryKey: ["users"], queryFn: () => client.listUsers(), enabled: admin });
  const keys = useQuery({ queryKey: ["keys"], queryFn: () => client.listKeys() });
  const [changing, setChanging] = useState<User>();
  const [made, setMade] = useState<NewKey>();
  const { problem, change } = useChange(["users"], ["keys"]);
  const submit = (act: (text: (name: string) => string | undefined) => Promise<unknown>) => (event: FormEvent<HTMLFormElement>) => {
    event.preventDefault();
    const form = event.currentTarget;
    const data = new FormData(form);
    void change(async () => {
      await act((name) => String(data.get(name) ?? "") || undefined);
      form.reset();
    });
  };
  return (
    <Page title="Users and keys" error={users.error ?? keys.error ?? problem} loading={keys.isPending}>
      {admin && (
        <section aria-label="Users" className="flex flex-col gap-2">
          <form onSubmit={submit((text) => client.createUser(text("name") ?? "", { password: text("password"), role: text("role") as "user" }))} className="flex flex-wrap items-end gap-2 px-4">
            <Field label="Name" name="name" required />
            <Field label="Password" name="password" type="password" autoComplete="new-password" placeholder="none: keys only" />
            <Choice label="Role" name="role" options={["user", "admin"]} />
            <Button type="submit">Add user</Button>
          </form>
          {users.data?.length === 0 ? (
            <EmptyState title="No users">The keys of the configuration are there without any. Add a user for each person: keys, quotas and usage are kept apart.</EmptyState>
          ) : (
            <Table label="Users" columns={["User", "Role", "State", "Signs in", "Quotas", "Since", "Actions"]}>
              {users.data?.map((one) => (
                <Row key={one.name}>
                  <Cell>
                    <Link to="/usage" search={{ user: one.name }} className="text-accent">
                      <Text of={one.name} />
                    </Link>
                  </Cell>
                  <Cell>
                    {one.role}
                    {one.inspect && ", looks into what others have"}
                    {one.images !== "none" && `, ${one.images}s images`}
                  </Cell>
                  <Cell>{one.state}</Cell>
                  <Cell>{one.hasPassword ? "with a password" : "with keys"}</Cell>
                  <Cell>{Object.keys(one.quota ?? {}).length || "those of all"}</Cell>
                  <Cell>
                    <Ago at={one.createdAt} />
                  </Cell>
                  <Cell>
                    <Button kind="bare" aria-label={`Change ${plain(one.name)}`} onClick={() => setChanging(one)}>
                      Change
                    </Button>
                    <DeleteButton name={one.name} onDelete={() => void change(() => client.deleteUser(one.name))}>
                      All that the user owns goes too: sessions with their files, workspaces, snapshots, secrets and keys. This cannot be undone.
                    </DeleteButton>
                  </Cell>
                </Row>
              ))}
            </Table>
          )}
        </section>
      )}
      <section aria-label="Keys" className="flex flex-col gap-2">
        <h2 className="px-4 font-semibold">Keys</h2>
        <ActForm onSubmit={submit(async (text) => setMade(await client.createKey({ name: text("key-name"), scope: text("scope") as "run", user: text("user") })))} className="flex flex-wrap items-end gap-2 px-4">
          <Field label="What it is for" name="key-name" />
          <Choice label="Scope" name="scope" options={admin ? ["run", "read", "admin"] : ["run", "read"]} />
          {admin && <Choice label="Of the user" name="user" options={(users.data ?? []).map(({ name }) => name)} />}
          <Button type="submit">New key</Button>
        </ActForm>
        {keys.data?.length === 0 ? (
          <EmptyState title="No keys">A key is for a program: it says whose the program&apos;s sessions are, and can be revoked.</EmptyState>
        ) : (
          <Table label="Keys" columns={["Key", "User", "Scope", "Used", "Made", "State", "Actions"]}>
            {keys.data?.map((one) => (
              <Row key={one.id}>
                <Cell>
                  <Text of={one.name || one.id} />
                </Cell>
                <Cell>
                  <Text of={one.user} />
                </Cell>
                <Cell>{one.scope}</Cell>
                <Cell>{one.lastUsedAt ? <Ago at={one.lastUsedAt} /> : "never"}</Cell>
                <Cell>
                  <Ago at={one.createdAt} />
                </Cell>
                <Cell>{stateOf(one)}</Cell>
                <Cell>
                  {!one.revokedAt && (
                    <DeleteButton name={one.name || one.id} verb="Revoke" onDelete={() => void change(() => client.revokeKey(one.id))}>
                      What uses it is refused from now on, and its streams end. Its sessions stay. This cannot be undone.
                    </DeleteButton>
                  )}
                </Cell>
              </Row>
            ))}
          </Table>
        )}
      </section>
      <Looked />
      <Dialog open={made !== undefined} onClose={() => setMade(undefined)} title="The new key">
        <p className="mb-3">It is shown this once: the daemon keeps only its hash.</p>
        <Copy block text={made?.key ?? ""} />
        <div className="mt-4 flex justify-end">
          <Button kind="main" onClick={() => setMade(undefined)}>
            I have it
          </Button>
        </div>
      </Dialog>
      {changing && <Change user={changing} onClose={() => setChanging(undefined)} onDone={() => void cache.invalidateQueries({ queryKey: ["users"] })} />}
    </Page>
  );
}

/** Who has looked into what is one's own: there is nothing of it to see for most. */
function Looked() {
  const { data } = useQuery({ queryKey: ["inspections"], queryFn: () => client.listInspections() });
  if (!data || data.length === 0) return null;
  return (
    <section aria-label="Inspections" className="flex flex-col gap-2">
      <h2 className="px-4 font-semibold">Who looked into what is yours</h2>
      <Table label="Inspections" columns={["By", "What", "Session", "Last"]}>
        {data.map((one) => (
          <Row key={`${one.by} ${one.what} ${one.sessionId ?? ""} ${one.firstAt}`}>
            <Cell>
              <Text of={one.by} />
            </Cell>
            <Cell>{one.what}</Cell>
            <Cell>
              {one.sessionId && (
                <Link to="/sessions/$id" params={{ id: one.sessionId }} className="font-mono text-xs text-accent">
                  {plain(one.sessionId.slice(0, 8))}
                </Link>
              )}
            </Cell>
            <Cell>
              <Ago at={one.lastAt} />
            </Cell>
          </Row>
        ))}
      </Table>
    </section>
  );
}

/** Role, state, password, rights and quotas of a user. An empty quota is what the configuration gives to all. */
function Change({ user, onClose, onDone }: { user: User; onClose: () => void; onDone: () => void }) {
  const operator = useOperator();
  const [error, setError] = useState<unknown>();
  const submit = async (event: FormEvent<HTMLFormElement>) => {
    event.preventDefault();
    const data = new FormData(event.currentTarget);
    const text = (name: string) => String(data.get(name) ?? "");
    const had = (name: keyof typeof quotas) => user.quota?.[name]?.toString() ?? "";
    const changed = (Object.keys(quotas) as (keyof typeof quotas)[]).filter((name) => text(name) !== had(name));
    try {
      await client.updateUser(user.name, {
        role: text("role") as "user",
        state: text("state") as "active",
        password: text("password") || undefined,
        images: text("images") === user.images ? undefined : (text("images") as "none"),
        inspect: !operator || text("role") !== "admin" || (text("inspect") === "yes") === user.inspect ? undefined : text("inspect") === "yes",
        quota: changed.length > 0 ? Object.fromEntries(changed.map((name) => [name, text(name) === "" ? null : Number(text(name))])) : undefined,
      });
      onDone();
      onClose();
    } catch (err) {
      setError(err);
    }
  };
  return (
    <Dialog open onClose={onClose} title={`Change ${plain(user.name)}`} wide>
      <form onSubmit={submit} className="flex flex-col gap-4">
        <div className="grid gap-3 sm:grid-cols-2">
          <Choice label="Role" name="role" options={["user", "admin"]} defaultValue={user.role} />
          <Choice label="State" name="state" options={["active", "disabled"]} defaultValue={user.state} hint="Keys of a disabled user open nothing." />
          <Field label="New password" name="password" type="password" autoComplete="new-password" placeholder="stays" />
          <Choice label="Makes images" name="images" options={["none", "pull", "build"]} defaultValue={user.images} hint="Of a user who is no admin. The steps of a build run as root on the daemon's host." />
          {operator && <Choice label="Looks into what others have" name="inspect" options={["no", "yes"]} defaultValue={user.inspect ? "yes" : "no"} hint="Of an admin. Those are told of each look, which is in the audit log." />}
          {Object.entries(quotas).map(([name, label]) => (
            <Field key={name} label={label} name={name} type="number" min={0} step="any" defaultValue={user.quota?.[name as keyof typeof quotas]} placeholder="as for all" />
          ))}
        </div>
        <ErrorNote error={error} />
        <FormButtons onClose={onClose} verb="Save" />
      </form>
    </Dialog>
  );
}
