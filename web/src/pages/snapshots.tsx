/** Snapshots: what there is, a new session of one, and deletion. */
import { useQuery } from "@tanstack/react-query";
import { Link, useNavigate } from "@tanstack/react-router";
import type { Snapshot } from "@sandkasten/sdk";
import { useState } from "react";
import { useChange } from "../api/change.js";
import { client } from "../api/client.js";
import { byHand } from "../api/expiry.js";
import { keys } from "../api/live.js";
import { Act } from "../ui/act.js";
import { DeleteButton } from "../ui/confirm.js";
import { Copy } from "../ui/copy.js";
import { EmptyState } from "../ui/notes.js";
import { Page } from "../ui/page.js";
import { Cell, Row, Table, bytes } from "../ui/table.js";
import { Text, plain } from "../ui/text.js";
import { Ago } from "../ui/time.js";

const titleOf = ({ name, label, id }: Snapshot) => name || label || id;

export function SnapshotsPage() {
  const navigate = useNavigate();
  const { data, error, isPending } = useQuery({ queryKey: keys.allSnapshots, queryFn: () => client.listSnapshots() });
  const { problem, change } = useChange(keys.allSnapshots);
  const [busy, setBusy] = useState<string>();
  const restore = async (id: string) => {
    setBusy(id);
    await change(async () => {
      const session = await client.createSession({ restoreSnapshotId: id, ...(await byHand()) });
      await navigate({ to: "/sessions/$id", params: { id: session.id } });
    });
    setBusy(undefined);
  };
  return (
    <Page title="Snapshots" error={error ?? problem} loading={isPending}>
      {!data?.length ? (
        <EmptyState title="No snapshots">
          <p className="mb-3">A snapshot keeps a session&apos;s files as they are now. Make one from a terminal:</p>
          <Copy text="sandkasten snapshot create SESSION" />
        </EmptyState>
      ) : (
        <Table label="Snapshots" columns={["Snapshot", "Owner", "Session", "Image", "Scope", "Size", "Age", "Actions"]}>
          {[...data].reverse().map((one) => (
            <Row key={one.id}>
              <Cell>
                <Text of={titleOf(one)} />
              </Cell>
              <Cell>
                <Text of={one.owner} />
              </Cell>
              <Cell>
                <Link to="/sessions/$id" params={{ id: one.sessionId }} className="font-mono text-xs text-accent">
                  {plain(one.sessionId.slice(0, 8))}
                </Link>
              </Cell>
              <Cell>
                <Text of={one.image} />
              </Cell>
              <Cell>{one.scope}</Cell>
              <Cell>{bytes(one.sizeBytes)}</Cell>
              <Cell>
                <Ago at={one.createdAt} />
              </Cell>
              <Cell>
                <Act kind="bare" disabled={busy !== undefined} aria-label={`New session of ${plain(titleOf(one))}`} onClick={() => restore(one.id)}>
                  {busy === one.id ? "Creating" : "New session"}
                </Act>
                <DeleteButton name={titleOf(one)} onDelete={() => void change(() => client.deleteSnapshot(one.id))}>
                  The files that it keeps are lost, unless a session has them too. Sessions that began with it keep theirs. This cannot be undone.
                </DeleteButton>
              </Cell>
            </Row>
          ))}
        </Table>
      )}
    </Page>
  );
}
