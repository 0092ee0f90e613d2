// Lists of Kubernetes events.
import { useQuery } from "@tanstack/react-query";
import type { ReactNode } from "react";
import type { EventsQuery } from "../api/client";
import { queries } from "../api/queries";
import type { Cluster, KubernetesEvent, StatusClass } from "../api/types";
import { grouped } from "../model/kinds";
import { isSilent } from "../model/status";
import { clusterHref, objectHref } from "../model/urls";
import { Link } from "../router";
import { Age } from "./atoms";
import { type Column, Grid } from "./grid";
import { StatusIcon } from "./icons";
import { QueryView } from "./states";

/** A list of this length says when it is not the whole. */
const LONG = 100;

function classOf(event: KubernetesEvent): StatusClass {
  return event.type === "Warning" ? "warning" : "none";
}

function involvedHref(event: KubernetesEvent): string | null {
  const { uid } = event.involved;
  return uid === null ? null : objectHref({ cluster: event.cluster, uid });
}

function Reason({ event }: { event: KubernetesEvent }) {
  return (
    <span className={`status status-${classOf(event)}`}>
      <StatusIcon status={classOf(event)} />
      <span>
        <span className="visually-hidden">{event.type} </span>
        {event.reason}
      </span>
    </span>
  );
}

function Subject({ event }: { event: KubernetesEvent }) {
  const href = involvedHref(event);
  const text = `${event.involved.kind} ${event.involved.name}`;
  if (href === null) return <span className="mono cut">{text}</span>;
  return (
    <Link className="cut" href={href} tabIndex={-1} title={text}>
      {event.involved.kind} <span className="mono">{event.involved.name}</span>
    </Link>
  );
}

const REASON: Column<KubernetesEvent> = {
  id: "reason",
  title: "Reason",
  width: "minmax(8.5rem, 1fr)",
  cell: (event) => <Reason event={event} />,
};
const ABOUT: Column<KubernetesEvent> = {
  id: "about",
  title: "Object",
  width: "minmax(9rem, 2.2fr)",
  cell: (event) => <Subject event={event} />,
};
const NAMESPACE: Column<KubernetesEvent> = {
  id: "namespace",
  title: "Namespace",
  width: "minmax(6rem, 0.8fr)",
  cell: (event) => <span className="mono cut">{event.namespace ?? "–"}</span>,
};
const MESSAGE: Column<KubernetesEvent> = {
  id: "message",
  title: "Message",
  width: "minmax(10rem, 2.8fr)",
  cell: (event) => (
    <span className="cut" title={event.message}>
      {event.message}
    </span>
  ),
};
const TIMES: Column<KubernetesEvent> = {
  id: "count",
  title: "Times",
  width: "4rem",
  end: true,
  cell: (event) => <span className={event.count > 1 ? "number" : "number quiet"}>{grouped(Math.max(1, event.count))}</span>,
};
const LAST: Column<KubernetesEvent> = {
  id: "last",
  title: "Last",
  width: "5.5rem",
  end: true,
  cell: (event) => <Age time={event.last ?? event.first} suffix=" ago" />,
};

/** The cluster of an event by its name; the name is known from the list of clusters. */
function clusterColumn(clusters: readonly Cluster[]): Column<KubernetesEvent> {
  return {
    id: "cluster",
    title: "Cluster",
    width: "minmax(5.5rem, 0.8fr)",
    cell: (event) => (
      <Link className="mono" href={clusterHref(event.cluster)} tabIndex={-1}>
        {clusters.find((cluster) => cluster.id === event.cluster)?.name ?? event.cluster}
      </Link>
    ),
  };
}

const COLUMNS = { reason: REASON, about: ABOUT, namespace: NAMESPACE, message: MESSAGE, count: TIMES, last: LAST };

interface EventListProps {
  title: string;
  query: EventsQuery;
  limit: number;
  columns: readonly (keyof typeof COLUMNS | "cluster")[];
  /** What to show if there is none. */
  empty: ReactNode;
}

/** The latest Kubernetes events of a query, the newest first. */
export function EventList({ title, query, limit, columns, empty }: EventListProps) {
  const events = useQuery(queries.events(query, limit));
  const clusters = useQuery(queries.clusters()).data?.items ?? [];
  const silent = new Set(clusters.filter(isSilent).map((cluster) => cluster.id));
  return (
    <QueryView query={events} what="the events" lines={Math.min(limit, 20)}>
      {(data) =>
        data.items.length === 0 ? (
          empty
        ) : (
          <>
            <Grid
              label={title}
              columns={columns.map((id) => (id === "cluster" ? clusterColumn(clusters) : COLUMNS[id]))}
              count={data.items.length}
              row={(index) => data.items[index]}
              rowKey={(event) => `${event.cluster}/${event.uid}`}
              href={involvedHref}
              muted={(event) => silent.has(event.cluster)}
              narrow={(event) => (
                <>
                  <div className="line">
                    <Reason event={event} />
                    <Age time={event.last ?? event.first} suffix=" ago" />
                  </div>
                  <div className="line quiet">
                    <span className="cut">
                      {event.involved.name}: {event.message}
                    </span>
                  </div>
                </>
              )}
            />
            {data.next !== null && limit >= LONG && <p className="after-list quiet">The latest {grouped(data.items.length)} events are shown.</p>}
          </>
        )
      }
    </QueryView>
  );
}
