// What a page shows when it has nothing to show, and why.
import type { ReactNode } from "react";
import type { UseQueryResult } from "@tanstack/react-query";
import { Button } from "react-aria-components/Button";
import { ApiError } from "../api/client";
import type { Cluster } from "../api/types";
import { clock, silence } from "../model/age";
import { isSilent } from "../model/status";
import { Link } from "../router";
import { Command } from "./atoms";
import { useNow } from "./clock";
import { Icon, type IconName, StatusIcon } from "./icons";

/** The command that makes a sign-in link. */
export const OPEN_COMMAND = "kubectl trustplane inventory open";
/** The command that adds a cluster. */
export const ENROLL_COMMAND = "kubectl trustplane inventory enroll --name NAME";

/** What a list says whose rows could not all be loaded. */
export const INCOMPLETE = "Could not load all rows: some may be missing or old.";

/** A bar in the place of text that is on its way. */
export function Skeleton({ width }: { width: string }) {
  return <span className="skeleton" style={{ width }} aria-hidden="true" />;
}

/** Bars in the place of a block that is on its way. */
export function SkeletonLines({ lines, label }: { lines: number; label: string }) {
  return (
    <div className="skeleton-lines" role="status" aria-label={label}>
      {Array.from({ length: lines }, (_, line) => (
        // Lines have no other identity.
        <Skeleton key={line} width={`${92 - ((line * 23) % 50)}%`} />
      ))}
    </div>
  );
}

/** Says what would be here and what puts it here. */
export function Empty({ icon, title, children }: { icon?: IconName; title: string; children?: ReactNode }) {
  return (
    <div className="empty">
      {icon !== undefined && <Icon name={icon} />}
      <p className="empty-title">{title}</p>
      {children}
    </div>
  );
}

/** Says what failed and offers to try again. */
export function Failure({ error, what, onRetry }: { error: Error; what: string; onRetry: () => void }) {
  if (error instanceof ApiError && error.isForbidden) {
    return (
      <Empty icon="lock" title={`You may not see ${what}.`}>
        <p>The hub refuses it: {error.message}.</p>
        <RequestId error={error} />
      </Empty>
    );
  }
  return (
    <div className="empty" role="alert">
      <StatusIcon status="error" />
      <p className="empty-title">Could not load {what}.</p>
      <p>{sentence(error.message)}</p>
      <p>
        <Button className="button" onPress={onRetry}>
          Retry
        </Button>
      </p>
      <RequestId error={error} />
    </div>
  );
}

/** Says above data that its latest refresh failed, since when it is old, and offers to try again. */
export function RefreshFailure({ error, text, onRetry }: { error: Error; text: string; onRetry: () => void }) {
  return (
    <div className="banner banner-error" role="alert">
      <StatusIcon status="error" />
      <div className="banner-text">
        <p>
          {text} {sentence(error.message)}
        </p>
        <RequestId error={error} />
      </div>
      <Button className="button" onPress={onRetry}>
        Retry
      </Button>
    </div>
  );
}

interface QueryViewProps<Data> {
  query: UseQueryResult<Data>;
  /** What is asked for, as in "Could not load the clusters." */
  what: string;
  /** How many bars stand in until the first answer. */
  lines: number;
  /** What to show if the hub has nothing at the address. */
  notFound?: ReactNode;
  children(data: Data): ReactNode;
}

/** Shows the answer to a query, or why there is none. Old data stays below a notice when a refresh fails. */
export function QueryView<Data>({ query, what, lines, notFound, children }: QueryViewProps<Data>) {
  const { data, error, dataUpdatedAt, refetch } = query;
  const now = useNow();
  const retry = () => void refetch();
  if (notFound !== undefined && isNotFound(error)) return notFound;
  if (data === undefined) {
    if (error !== null) return <Failure error={error} what={what} onRetry={retry} />;
    return <SkeletonLines lines={lines} label={`Loading ${what}`} />;
  }
  const since = clock(new Date(dataUpdatedAt).toISOString(), now);
  return (
    <>
      {error !== null && <RefreshFailure error={error} text={`Could not refresh ${what}: what you see is from ${since}.`} onRetry={retry} />}
      {children(data)}
    </>
  );
}

/** Whether the hub answered that nothing is at the address. */
export function isNotFound(error: Error | null): boolean {
  return error instanceof ApiError && error.isNotFound;
}

function RequestId({ error }: { error: Error }) {
  if (!(error instanceof ApiError) || error.requestId === null) return null;
  return (
    <p className="quiet">
      Request <code>{error.requestId}</code>: the log of the hub has the same number.
    </p>
  );
}

function sentence(text: string): string {
  const start = text.charAt(0).toUpperCase() + text.slice(1);
  return /[.!?]$/.test(start) ? start : `${start}.`;
}

/** The page of a person without a session. */
export function SignedOut() {
  return (
    <main className="alone">
      <div className="empty">
        <Icon name="lock" />
        <h1 className="empty-title">You are signed out.</h1>
        <p>The console opens by a link that works once. This command makes one and opens it:</p>
        <Command text={OPEN_COMMAND} />
        <p className="quiet">
          With a hub on this machine: <code>trustplane-hub sign-in</code> prints the link. A session lasts 12 hours.
        </p>
      </div>
    </main>
  );
}

/** The page of an address that leads nowhere. */
export function NotFound({ title, children }: { title: string; children?: ReactNode }) {
  return (
    <Empty icon="search" title={title}>
      {children}
      <p>
        <Link href="/">Fleet</Link> · <Link href="/resources">Resources</Link> · <Link href="/search">Search</Link>
      </p>
    </Empty>
  );
}

/** A line above a page about something that a person must know while reading it. */
export function Banner({ tone, children }: { tone: "warning" | "error" | "progress" | "none"; children: ReactNode }) {
  return (
    <div className={`banner banner-${tone}`} role="note">
      <StatusIcon status={tone} />
      <div>{children}</div>
    </div>
  );
}

/** Says how old the data of a cluster is and since when, while its agent is silent. */
export function SilenceBanner({ cluster }: { cluster: Cluster | undefined }) {
  const now = useNow();
  if (cluster === undefined || cluster.state === "connected") return null;
  const text = silence(cluster, now);
  const tone = cluster.state === "pending" ? "progress" : cluster.state === "stale" ? "warning" : "error";
  return (
    <Banner tone={tone}>
      {text}{" "}
      {isSilent(cluster) && <span className="quiet">What you see may no longer be true. Check the agent in {cluster.name}.</span>}
    </Banner>
  );
}

/** Names the silent clusters of a list, in one line that moves nothing. */
export function SilenceNotice({ clusters }: { clusters: readonly Cluster[] }) {
  const now = useNow();
  const silent = clusters.filter(isSilent);
  const [first] = silent;
  if (first === undefined) return null;
  const since = first.last_contact === null ? "" : ` since ${clock(first.last_contact, now)}`;
  const names = silent.map((cluster) => cluster.name).join(", ");
  const text = silent.length === 1 ? `${names} is silent${since}` : `${silent.length} clusters are silent`;
  return (
    <div className="notice" role="note" title={`${names}: rows of silent clusters are muted`}>
      <StatusIcon status="warning" />
      <span>{text}</span>
    </div>
  );
}
