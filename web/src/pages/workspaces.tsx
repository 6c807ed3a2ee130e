/** Workspaces: directories that outlive the sessions that have them. */
import { useQuery } from "@tanstack/react-query";
import { type FormEvent } from "react";
import { useChange } from "../api/change.js";
import { client } from "../api/client.js";
import { keys } from "../api/live.js";
import { ActForm } from "../ui/act.js";
import { Button } from "../ui/button.js";
import { DeleteButton } from "../ui/confirm.js";
import { Search } from "../ui/field.js";
import { EmptyState } from "../ui/notes.js";
import { Page } from "../ui/page.js";
import { Cell, Row, Table, bytes } from "../ui/table.js";
import { Text } from "../ui/text.js";
import { Ago } from "../ui/time.js";

export function WorkspacesPage() {
  const { data, error, isPending } = useQuery({ queryKey: keys.workspaces, queryFn: () => client.listWorkspaces() });
  const { problem, change } = useChange(keys.workspaces);
  const make = (event: FormEvent<HTMLFormElement>) => {
    event.preventDefault();
    const form = event.currentTarget;
    const id = String(new FormData(form).get("id"));
    void change(() => client.createWorkspace({ id: id || undefined }).then(() => form.reset()));
  };
  return (
    <Page
      title="Workspaces"
      error={error ?? problem}
      loading={isPending}
      actions={
        <ActForm onSubmit={make} className="flex gap-2">
          <Search label="Id of a new workspace" name="id" placeholder="id, or made up" />
          <Button type="submit">New workspace</Button>
        </ActForm>
      }
    >
      {data?.length === 0 ? (
        <EmptyState title="No workspaces">A workspace is a directory that outlives its sessions: each that is made with it finds the files at /workspace.</EmptyState>
      ) : (
        <Table label="Workspaces" columns={["Workspace", "Size", "Sessions", "Running", "Used", "Made", "Actions"]}>
          {data?.map((one) => (
            <Row key={one.id}>
              <Cell>
                <Text of={one.id} className="font-mono text-xs" />
              </Cell>
              <Cell>{bytes(one.sizeBytes)}</Cell>
              <Cell>{one.sessionCount}</Cell>
              <Cell>{one.activeSessionCount}</Cell>
              <Cell>
                <Ago at={one.lastUsedAt} />
              </Cell>
              <Cell>
                <Ago at={one.createdAt} />
              </Cell>
              <Cell>
                <DeleteButton name={one.id} onDelete={() => void change(() => client.deleteWorkspace(one.id))}>
                  Its files are lost. The daemon refuses while a session has it. This cannot be undone.
                </DeleteButton>
              </Cell>
            </Row>
          ))}
        </Table>
      )}
    </Page>
  );
}
