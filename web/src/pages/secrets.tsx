/** Secrets: what goes to hosts in the name of sessions that never see it. */
import { useQuery, useQueryClient } from "@tanstack/react-query";
import { useState, type FormEvent } from "react";
import { client } from "../api/client.js";
import { ActForm } from "../ui/act.js";
import { Button } from "../ui/button.js";
import { DeleteButton } from "../ui/confirm.js";
import { Field } from "../ui/field.js";
import { EmptyState } from "../ui/notes.js";
import { Page } from "../ui/page.js";
import { Cell, Row, Table } from "../ui/table.js";
import { Text } from "../ui/text.js";
import { Ago } from "../ui/time.js";

const key = ["secrets"];

export function SecretsPage() {
  const cache = useQueryClient();
  const { data, error, isPending } = useQuery({ queryKey: key, queryFn: () => client.listSecrets() });
  const [problem, setProblem] = useState<unknown>();
  const change = async (act: () => Promise<unknown>) => {
    setProblem(undefined);
    await act().catch(setProblem);
    await cache.invalidateQueries({ queryKey: key });
  };
  const set = (event: FormEvent<HTMLFormElement>) => {
    event.preventDefault();
    const form = event.currentTarget;
    const data = new FormData(form);
    const text = (name: string) => String(data.get(name) ?? "");
    void change(async () => {
      await client.setSecret(text("name"), { hosts: text("hosts").split(/[\s,]+/).filter(Boolean), header: text("header"), value: text("value") });
      form.reset();
    });
  };
  return (
    <Page title="Secrets" error={error ?? problem} loading={isPending}>
      <ActForm onSubmit={set} className="flex flex-wrap items-end gap-2 px-4">
        <Field label="Name" name="name" required />
        <Field label="Hosts that get it" name="hosts" required placeholder="api.example.org" />
        <Field label="Header" name="header" required defaultValue="Authorization" />
        <Field label="Value" name="value" type="password" autoComplete="off" required placeholder="Bearer ..." />
        <Button type="submit">Set secret</Button>
      </ActForm>
      {data?.length === 0 ? (
        <EmptyState title="No secrets">A secret stays outside of sandboxes: the daemon adds it to requests for its hosts. A session refers to it by name. Nothing shows its value again.</EmptyState>
      ) : (
        <Table label="Secrets" columns={["Secret", "Hosts", "Goes in", "For", "Set", "Actions"]}>
          {data?.map((one) => (
            <Row key={one.name}>
              <Cell>
                <Text of={one.name} className="font-mono text-xs" />
              </Cell>
              <Cell>
                <Text of={one.hosts.join(", ")} />
              </Cell>
              <Cell>
                <Text of={one.header ? `header ${one.header}` : `query ${one.query ?? ""}`} />
              </Cell>
              <Cell>{one.shared ? "sessions of all keys" : "your sessions"}</Cell>
              <Cell>
                <Ago at={one.updatedAt} />
              </Cell>
              <Cell>
                <DeleteButton name={one.name} onDelete={() => void change(() => client.deleteSecret(one.name))}>
                  Sessions that refer to it send their requests without it from now on. Its value cannot be had back.
                </DeleteButton>
              </Cell>
            </Row>
          ))}
        </Table>
      )}
    </Page>
  );
}
