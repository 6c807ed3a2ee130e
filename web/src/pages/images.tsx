/** Images: what sessions are made of, and for admins how they come and go. */
import { useQuery, useQueryClient } from "@tanstack/react-query";
import type { Image, ImageJob } from "@sandkasten/sdk";
import { useEffect, useRef, useState, type FormEvent } from "react";
import { useChange } from "../api/change.js";
import { client, upload } from "../api/client.js";
import { keys, listSessions } from "../api/live.js";
import { useAdmin } from "../api/me.js";
import { Button } from "../ui/button.js";
import { Confirm, DeleteButton } from "../ui/confirm.js";
import { Copy } from "../ui/copy.js";
import { Dialog, FormButtons } from "../ui/dialog.js";
import { Field } from "../ui/field.js";
import { useLoss } from "../ui/leave.js";
import { EmptyState, ErrorNote } from "../ui/notes.js";
import { Page } from "../ui/page.js";
import { Cell, Row, Table, bytes } from "../ui/table.js";
import { Text, plain } from "../ui/text.js";
import { Ago } from "../ui/time.js";

type Way = "Pull" | "Build" | "Import";
const ways: Way[] = ["Pull", "Build", "Import"];
const titleOf = ({ names, digest }: Image) => names.join(", ") || digest.slice(0, 19);

export function ImagesPage() {
  const admin = useAdmin();
  const { data, error, isPending } = useQuery({ queryKey: keys.images, queryFn: () => client.listImages() });
  const sessions = useQuery({ queryKey: keys.sessions, queryFn: listSessions });
  const [way, setWay] = useState<Way>();
  const { problem, change } = useChange(keys.images);
  const users = (image: Image) => (sessions.data ?? []).filter((one) => one.imageDigest === image.digest).length;
  return (
    <Page
      title="Images"
      error={error ?? problem}
      loading={isPending}
      actions={
        admin &&
        ways.map((name) => (
          <Button key={name} onClick={() => setWay(name)}>
            {name}
          </Button>
        ))
      }
    >
      {!data?.length ? (
        <EmptyState title="No images">A session is made of an image. An admin pulls, builds or imports one.</EmptyState>
      ) : (
        <Table label="Images" columns={["Image", "Digest", "From", "Size", "Sessions", "Age", ...(admin ? ["Actions"] : [])]}>
          {data.map((image) => (
            <Row key={image.digest}>
              <Cell>
                <Text of={titleOf(image)} />
              </Cell>
              <Cell>
                <Copy text={image.digest} />
              </Cell>
              <Cell>
                <Text of={image.source ?? ""} />
              </Cell>
              <Cell>{bytes(image.sizeBytes)}</Cell>
              <Cell>{users(image)}</Cell>
              <Cell>
                <Ago at={image.createdAt} />
              </Cell>
              {admin && (
                <Cell>
                  <DeleteButton name={titleOf(image)} onDelete={() => void change(() => client.deleteImage(image.digest))}>
                    {users(image) > 0
                      ? `${users(image)} session(s) use it, and the daemon refuses as long as they do: delete them first.`
                      : "It goes with all its names. New sessions need another image, or this one pulled or built again."}
                  </DeleteButton>
                </Cell>
              )}
            </Row>
          ))}
        </Table>
      )}
      {admin && <Jobs />}
      {way && <NewImage way={way} onClose={() => setWay(undefined)} />}
    </Page>
  );
}

function Jobs() {
  const { data, error } = useQuery({ queryKey: keys.imageJobs, queryFn: () => client.listImageJobs() });
  const { problem, change } = useChange(keys.imageJobs);
  if (!data?.length) return <ErrorNote error={error} />;
  return (
    <section className="flex flex-col gap-2">
      <h2 className="px-4 font-medium">Jobs</h2>
      <ErrorNote error={error ?? problem} />
      <Table label="Jobs" columns={["Job", "Image", "State", "Progress", "Age", "Actions"]}>
        {[...data].reverse().map((job) => (
          <Row key={job.id}>
            <Cell>{job.kind}</Cell>
            <Cell>
              <Text of={job.name} />
            </Cell>
            <Cell>{job.status}</Cell>
            <Cell>
              <Progress job={job} />
            </Cell>
            <Cell>
              <Ago at={job.createdAt} />
            </Cell>
            <Cell>
              {!job.endedAt && (
                <Button kind="bare" aria-label={`Cancel ${job.kind} of ${plain(job.name)}`} onClick={() => void change(() => client.cancelImageJob(job.id))}>
                  Cancel
                </Button>
              )}
            </Cell>
          </Row>
        ))}
      </Table>
    </section>
  );
}

function Progress({ job: { error, progress, endedAt } }: { job: ImageJob }) {
  if (error) return <Text of={error} className="text-bad" />;
  if (endedAt) return null;
  const of = progress.totalBytes > 0 ? ` of ${bytes(progress.totalBytes)}` : "";
  return (
    <>
      <Text of={progress.phase} /> {progress.doneBytes > 0 && `${bytes(progress.doneBytes)}${of}`}
    </>
  );
}

function NewImage({ way, onClose }: { way: Way; onClose: () => void }) {
  const cache = useQueryClient();
  const [error, setError] = useState<unknown>();
  const [sent, setSent] = useState<number>();
  const [busy, setBusy] = useState(false);
  const [leaving, setLeaving] = useState(false);
  // The upload ends with the dialog.
  const sending = useRef<AbortController>(undefined);
  useEffect(() => () => sending.current?.abort(), []);
  const importing = busy && way === "Import";
  useLoss(importing);
  const close = () => (importing ? setLeaving(true) : onClose());
  const send = (name: string, file: File) => {
    sending.current = new AbortController();
    return upload(`/v1/images/import?name=${encodeURIComponent(name)}`, file, setSent, { signal: sending.current.signal });
  };
  const start = async (form: FormData) => {
    const text = (name: string) => String(form.get(name) ?? "").trim();
    if (way === "Pull") await client.pullImage(text("ref"), { name: text("name") || undefined });
    else if (way === "Build") await client.buildImage(text("name"), { recipe: text("recipe") || undefined });
    else await send(text("name"), form.get("file") as File);
  };
  const submit = async (event: FormEvent<HTMLFormElement>) => {
    event.preventDefault();
    setBusy(true);
    setError(undefined);
    try {
      await start(new FormData(event.currentTarget));
      await cache.invalidateQueries({ queryKey: keys.images });
      onClose();
    } catch (err) {
      setError(err);
      setBusy(false);
      setLeaving(false);
    }
  };
  return (
    <Dialog open onClose={close} title={`${way} an image`}>
      <form onSubmit={submit} className="flex flex-col gap-3">
        {way === "Pull" && <Field label="Reference" name="ref" placeholder="python:3.12-slim" required />}
        <Field label="Name" name="name" required={way !== "Pull"} placeholder={way === "Pull" ? "the reference" : ""} />
        {way === "Build" && (
          <label className="flex flex-col gap-1 text-xs text-muted">
            Recipe, or nothing for the daemon&apos;s own of that name
            <textarea name="recipe" rows={8} spellCheck={false} className="rounded border border-line bg-sunk p-2 font-mono text-xs text-text" />
          </label>
        )}
        {way === "Import" && <Field label="Tar file of a root file system" name="file" type="file" required />}
        {sent !== undefined && <progress aria-label="Upload" value={sent} className="w-full" />}
        <ErrorNote error={error} />
        <FormButtons onClose={close} verb={way} disabled={busy} />
      </form>
      <Confirm open={leaving && importing} title="End the import?" verb="End it" keep="Go on" onKeep={() => setLeaving(false)} onDelete={onClose}>
        What has been sent is lost, and no image is made.
      </Confirm>
    </Dialog>
  );
}
