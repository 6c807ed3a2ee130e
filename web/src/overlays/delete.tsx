/** The one question before sessions are deleted. */
import { useQuery } from "@tanstack/react-query";
import type { SessionInfo } from "@sandkasten/sdk";
import { called, changeSessions } from "../api/acts.js";
import { client } from "../api/client.js";
import { keys } from "../api/live.js";
import { Confirm } from "../ui/confirm.js";
import { plain } from "../ui/text.js";

export function DeleteSessions({ sessions, onClose, onDeleted }: { sessions: readonly SessionInfo[]; onClose: () => void; onDeleted: (ids: string[]) => void }) {
  const one = sessions.length === 1 ? sessions[0] : undefined;
  const remove = async () => {
    onClose();
    const failed = await changeSessions("destroy", sessions);
    onDeleted(sessions.flatMap(({ id }) => (failed.has(id) ? [] : [id])));
  };
  return (
    <Confirm open title={`Delete ${plain(called(sessions))}?`} keep={one ? "Keep it" : "Keep them"} onKeep={onClose} onDelete={() => void remove()}>
      {one ? <Losses session={one} /> : <p>Their programs end, and their files go with them, but for those of workspaces and snapshots.</p>}
      <p className="mt-2">This cannot be undone.</p>
    </Confirm>
  );
}

/** What a delete takes away, and what stays. */
function Losses({ session }: { session: SessionInfo }) {
  const family = useQuery({ queryKey: keys.snapshots(session.id), queryFn: () => client.listSnapshots({ sessionId: session.id }) });
  const saved = family.data?.length;
  const running = session.status === "running" || session.status === "paused";
  return (
    <div className="grid grid-cols-[auto_1fr] gap-x-3 gap-y-1">
      <span className="font-medium text-bad">Lost</span>
      <span>
        {running && "Its programs and their memory. "}
        {session.workspaceId ? "Its files outside of /workspace." : "All of its files."} Addresses of previews end.
      </span>
      <span className="font-medium text-good">Kept</span>
      <span>
        {session.workspaceId && "Its workspace. "}
        {saved === undefined ? "Its snapshots, if it has any. " : saved > 0 ? `${saved} snapshot${saved === 1 ? "" : "s"} of it. ` : "It has no snapshots. "}
        Its forks.
      </span>
    </div>
  );
}
