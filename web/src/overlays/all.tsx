import { useNavigate, useParams } from "@tanstack/react-router";
import { leaveNow } from "../api/me.js";
import { CreateSession } from "../pages/create.js";
import { Fork, Save } from "../pages/session/snapshots.js";
import { Confirm } from "../ui/confirm.js";
import { close, overlay } from "./open.js";
import { DeleteSessions } from "./delete.js";
import { KeysDialog } from "./keys.js";
import { Palette } from "./palette.js";

/** The overlay that is open. */
export default function Overlays() {
  const { id } = useParams({ strict: false });
  const navigate = useNavigate();
  const one = overlay.use();
  switch (one?.kind) {
    case "palette":
      return <Palette />;
    case "keys":
      return <KeysDialog onClose={close} />;
    case "create":
      return <CreateSession onClose={close} />;
    case "leave":
      return (
        <Confirm
          open
          title="Sign out?"
          verb="Sign out"
          keep="Stay"
          onKeep={close}
          onDelete={() => {
            close();
            void leaveNow();
          }}
        >
          Uploads that are under way end, and leave nothing. What is not saved is lost, in other tabs too.
        </Confirm>
      );
    case "delete":
      return <DeleteSessions sessions={one.sessions} onClose={close} onDeleted={(ids) => id !== undefined && ids.includes(id) && void navigate({ to: "/" })} />;
    case "snapshot":
      return <Save id={one.id} onClose={close} />;
    case "fork":
      return <Fork id={one.id} onClose={close} />;
    default:
      return null;
  }
}
