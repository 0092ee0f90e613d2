// All clusters at a glance, and what needs attention in them.
import { useQuery } from "@tanstack/react-query";
import { useState } from "react";
import { Button } from "react-aria-components/Button";
import { Dialog, Heading as DialogHeading } from "react-aria-components/Dialog";
import { Modal, ModalOverlay } from "react-aria-components/Modal";
import { queries } from "../api/queries";
import type { Cluster, ClusterState } from "../api/types";
import { clock } from "../model/age";
import { grouped, problemCount } from "../model/kinds";
import { isSilent, stateWord } from "../model/status";
import { clusterHref, resourcesHref } from "../model/urls";
import { Link } from "../router";
import { Age, Command, Count, Problems, Section, Sparkline, StateWord } from "../ui/atoms";
import { useNow } from "../ui/clock";
import { EventList } from "../ui/events";
import { type Column, Grid } from "../ui/grid";
import { Icon } from "../ui/icons";
import { ShortList } from "../ui/objects";
import { Heading, ScrollArea, useTitle } from "../ui/page";
import { Banner, Empty, ENROLL_COMMAND, QueryView } from "../ui/states";

/** How many objects and events the short lists show. */
const SHORT = 10;

export function FleetPage() {
  useTitle("Fleet");
  const query = useQuery(queries.clusters());
  const clusters = query.data?.items;
  return (
    <ScrollArea className="page">
      <header className="page-head">
        <div>
          <Heading>Fleet</Heading>
          <p className="summary">{clusters === undefined ? <>&nbsp;</> : summary(clusters)}</p>
        </div>
        {clusters !== undefined && clusters.length > 0 && <AddCluster />}
      </header>
      <QueryView query={query} what="the clusters" lines={6}>
        {({ items }) => (items.length === 0 ? <NoClusters /> : <Clusters clusters={items} />)}
      </QueryView>
    </ScrollArea>
  );
}

const STATES: readonly ClusterState[] = ["connected", "stale", "disconnected", "pending"];

/** The fleet in one line: "3 clusters: 2 connected, 1 stale. 2,014 objects." */
function summary(clusters: readonly Cluster[]): string {
  if (clusters.length === 0) return "No cluster reports to this hub yet.";
  const words = STATES.map((state) => [state, clusters.filter((cluster) => cluster.state === state).length] as const)
    .filter(([, count]) => count > 0)
    .map(([state, count]) => `${count} ${stateWord(state).toLowerCase()}`)
    .join(", ");
  const objects = clusters.reduce((total, cluster) => total + cluster.objects, 0);
  return `${clusters.length} ${clusters.length === 1 ? "cluster" : "clusters"}: ${words} · ${grouped(objects)} objects`;
}

const COLUMNS: Column<Cluster>[] = [
  {
    id: "name",
    title: "Cluster",
    width: "minmax(9rem, 1.4fr)",
    cell: (cluster) => (
      <Link className="mono name" href={clusterHref(cluster.id)} tabIndex={-1} title={cluster.name}>
        {cluster.name}
      </Link>
    ),
  },
  { id: "state", title: "State", width: "minmax(8rem, 0.9fr)", cell: (cluster) => <StateWord cluster={cluster} /> },
  { id: "age", title: "Data age", width: "minmax(8rem, 1fr)", cell: (cluster) => <DataAge cluster={cluster} /> },
  { id: "objects", title: "Objects", width: "5rem", end: true, cell: (cluster) => <Count value={cluster.objects} /> },
  { id: "problems", title: "Problems", width: "minmax(8rem, 2fr)", cell: (cluster) => (cluster.objects === 0 ? <span className="quiet">–</span> : <Problems problems={cluster.problems} />) },
  {
    id: "kubernetes",
    title: "Kubernetes",
    width: "minmax(5.5rem, 0.7fr)",
    cell: (cluster) => <span className="mono cut">{cluster.kubernetes_version ?? "–"}</span>,
  },
  {
    id: "agent",
    title: "Agent",
    width: "minmax(4.5rem, 0.6fr)",
    cell: (cluster) => <span className="mono cut">{cluster.agent_version ?? "–"}</span>,
  },
  {
    id: "activity",
    title: "Changes per minute",
    width: "8.5rem",
    cell: (cluster) => <Sparkline values={cluster.activity} />,
  },
];

function DataAge({ cluster }: { cluster: Cluster }) {
  const now = useNow();
  if (cluster.last_contact === null) return <span className="quiet">no data yet</span>;
  return (
    <span className="cut">
      <Age time={cluster.last_contact} />
      {isSilent(cluster) && <span> (since {clock(cluster.last_contact, now)})</span>}
    </span>
  );
}

function Clusters({ clusters }: { clusters: readonly Cluster[] }) {
  const alerts = clusters.flatMap((cluster) => cluster.alerts.map((alert) => ({ cluster, alert })));
  return (
    <>
      {alerts.map(({ cluster, alert }) => (
        <Banner key={`${cluster.id} ${alert.at} ${alert.text}`} tone="error">
          <Link href={clusterHref(cluster.id)}>{cluster.name}</Link>: {alert.text} (<Age time={alert.at} suffix=" ago" />)
        </Banner>
      ))}
      <Grid
        label="Clusters"
        columns={COLUMNS}
        count={clusters.length}
        row={(index) => clusters[index]}
        rowKey={(cluster) => cluster.id}
        href={(cluster) => clusterHref(cluster.id)}
        muted={(cluster) => cluster.state !== "connected"}
        isTall
        narrow={(cluster) => (
          <>
            <div className="line">
              <Link className="mono name" href={clusterHref(cluster.id)} tabIndex={-1}>
                {cluster.name}
              </Link>
              <StateWord cluster={cluster} />
            </div>
            <div className="line quiet">
              <span className="cut">
                {grouped(cluster.objects)} objects
                {problemCount(cluster.problems) > 0 && `, ${grouped(problemCount(cluster.problems))} problems`}
              </span>
              <DataAge cluster={cluster} />
            </div>
          </>
        )}
      />
      <div className="pair">
        <Attention />
        <Section title="Latest warnings">
          <EventList
            title="Latest warnings"
            query={{ type: "Warning" }}
            limit={SHORT}
            columns={["reason", "about", "cluster", "message", "last"]}
            empty={<Empty title="No warnings.">{<p>Warnings that Kubernetes records about objects show here.</p>}</Empty>}
          />
        </Section>
      </div>
    </>
  );
}

/** What fails now, the latest change first. */
function Attention() {
  const query = useQuery(queries.objects({ status: "error", sort: "changed", order: "desc" }, SHORT));
  const { data } = query;
  const more = data !== undefined && data.total > data.items.length;
  return (
    <Section
      title="Failing now"
      note={data !== undefined && data.total > 0 ? grouped(data.total) : undefined}
      action={more ? <Link href={resourcesHref({ status: "error", sort: "changed", descending: true })}>All {grouped(data.total)}</Link> : undefined}
    >
      <QueryView query={query} what="what fails" lines={SHORT}>
        {({ items }) =>
          items.length === 0 ? (
            <Empty title="Nothing fails." />
          ) : (
            <ShortList title="Failing now" objects={items} columns={["name", "status", "namespace", "cluster", "changed"]} />
          )
        }
      </QueryView>
    </Section>
  );
}

function NoClusters() {
  return (
    <Empty icon="fleet" title="Clusters show here as soon as their agents report.">
      <p>Run this with the kubeconfig of a cluster to add it. NAME is what you will call it here.</p>
      <Command text={ENROLL_COMMAND} />
      <p className="quiet">The command makes a key pair in the cluster, tells the hub its public half, and starts the agent.</p>
    </Empty>
  );
}

function AddCluster() {
  const [isOpen, setOpen] = useState(false);
  return (
    <>
      <Button className="button" onPress={() => setOpen(true)}>
        <Icon name="plus" />
        Add cluster
      </Button>
      <ModalOverlay className="overlay" isOpen={isOpen} onOpenChange={setOpen} isDismissable>
        <Modal className="modal">
          <Dialog className="dialog">
            <DialogHeading slot="title">Add a cluster</DialogHeading>
            <p>Run this with the kubeconfig of the cluster. NAME is what you will call it here.</p>
            <Command text={ENROLL_COMMAND} />
            <ol className="steps">
              <li>The command makes a key pair. The private key stays in a Secret of the cluster.</li>
              <li>The cluster shows here as pending.</li>
              <li>The agent sends its first snapshot, and the cluster shows as connected. That takes less than a minute.</li>
            </ol>
            <p className="dialog-end">
              <Button className="button" onPress={() => setOpen(false)}>
                Close
              </Button>
            </p>
          </Dialog>
        </Modal>
      </ModalOverlay>
    </>
  );
}
