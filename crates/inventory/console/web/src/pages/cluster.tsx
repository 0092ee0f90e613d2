// One cluster: how fresh its data is, what it runs by category, and its namespaces.
import { useQuery } from "@tanstack/react-query";
import { useState } from "react";
import { Input, SearchField } from "react-aria-components/SearchField";
import { Tab, TabList, TabPanel, Tabs } from "react-aria-components/Tabs";
import { queries } from "../api/queries";
import type { Cluster, NamespaceSummary } from "../api/types";
import { span } from "../model/age";
import { CATEGORIES, type Category, grouped, plural } from "../model/kinds";
import { namespaceHref, resourcesHref } from "../model/urls";
import { Link, useSearchValue } from "../router";
import { Age, Command, Count, Fact, Facts, KindLabel, Problems, Section, Sparkline, StateWord, StatusWord } from "../ui/atoms";
import { EventList } from "../ui/events";
import { type Column, Grid } from "../ui/grid";
import { Icon, StatusIcon } from "../ui/icons";
import { KindTiles } from "../ui/kinds";
import { Heading, ScrollArea, useTitle } from "../ui/page";
import { Banner, Empty, ENROLL_COMMAND, isNotFound, NotFound, QueryView, SilenceBanner, Skeleton } from "../ui/states";

/** How many events the tab of events shows. */
const EVENTS = 200;
/** With more namespaces than this a field narrows their table. */
const MANY = 12;

export function ClusterPage({ id }: { id: string }) {
  const query = useQuery(queries.cluster(id));
  const isMissing = isNotFound(query.error);
  const cluster = isMissing ? undefined : query.data;
  useTitle(cluster?.name ?? "Cluster");
  return (
    <ScrollArea className="page">
      <header className="page-head">
        <div>
          <div className="title-line">
            {!isMissing && <KindLabel kind="Cluster" />}
            <Heading mono={cluster !== undefined}>{cluster?.name ?? (isMissing ? "Not found" : "Cluster")}</Heading>
            {cluster !== undefined && <StateWord cluster={cluster} />}
          </div>
        </div>
      </header>
      <QueryView query={query} what="the cluster" lines={8} notFound={<NotFound title="The hub knows no cluster at this address." />}>
        {(data) => <ClusterView cluster={data} />}
      </QueryView>
    </ScrollArea>
  );
}

function ClusterView({ cluster }: { cluster: Cluster }) {
  return (
    <>
      <SilenceBanner cluster={cluster} />
      {cluster.alerts.map((alert) => (
        <Banner key={`${alert.at} ${alert.text}`} tone="error">
          {alert.text} (<Age time={alert.at} suffix=" ago" />)
        </Banner>
      ))}
      {cluster.last_contact !== null && <ClusterFacts cluster={cluster} />}
      {cluster.objects === 0 && cluster.last_snapshot === null ? <Waiting cluster={cluster} /> : <Categories cluster={cluster} />}
    </>
  );
}

function ClusterFacts({ cluster }: { cluster: Cluster }) {
  return (
    <Facts>
      <Fact name="Last contact">
        <Age time={cluster.last_contact} suffix=" ago" />
      </Fact>
      <Fact name="Last snapshot">
        <Age time={cluster.last_snapshot} suffix=" ago" />
      </Fact>
      <Fact name="Heartbeat">{cluster.heartbeat_seconds === null ? "–" : `every ${span(cluster.heartbeat_seconds * 1000)}`}</Fact>
      <Fact name="Kubernetes" mono>
        {cluster.kubernetes_version ?? "–"}
      </Fact>
      <Fact name="Agent" mono>
        {cluster.agent_version ?? "–"}
      </Fact>
      <Fact name="Objects">
        <Link href={resourcesHref({ cluster: cluster.id })}>{grouped(cluster.objects)}</Link>
      </Fact>
      <Fact name="Changes per minute">
        <Sparkline values={cluster.activity} />
      </Fact>
      <Fact name="Problems">
        <Problems problems={cluster.problems} />
      </Fact>
    </Facts>
  );
}

function Waiting({ cluster }: { cluster: Cluster }) {
  return (
    <Empty icon="clock" title={`What ${cluster.name} runs shows here after the first snapshot of its agent.`}>
      <p>If nothing comes within a minute, ask the agent in that cluster what is wrong:</p>
      <Command text="kubectl get obsykagents --all-namespaces --output wide" />
      <p>If no agent was installed there yet:</p>
      <Command text={ENROLL_COMMAND.replace("NAME", cluster.name)} />
    </Empty>
  );
}

function Categories({ cluster }: { cluster: Cluster }) {
  const [tab, setTab] = useSearchValue("tab", "workloads");
  const selected = CATEGORIES.some((category) => category.id === tab) ? tab : "workloads";
  return (
    <Tabs className="tabs" selectedKey={selected} onSelectionChange={(key) => setTab(String(key))}>
      <TabList className="tab-list" aria-label="Categories">
        {CATEGORIES.map((category) => (
          <Tab key={category.id} id={category.id} className="tab">
            <CategoryTitle category={category} cluster={cluster} />
          </Tab>
        ))}
      </TabList>
      {CATEGORIES.map((category) => (
        <TabPanel key={category.id} id={category.id} className="tab-panel">
          {category.id === "events" ? (
            <EventList
              title="Events"
              query={{ cluster: cluster.id }}
              limit={EVENTS}
              columns={["reason", "about", "namespace", "message", "count", "last"]}
              empty={<Empty title="No events.">{<p>Kubernetes keeps its events for about an hour; new ones show here.</p>}</Empty>}
            />
          ) : (
            <>
              <KindTiles
                kinds={category.kinds}
                count={(kind) => cluster.counts[kind] ?? 0}
                problems={(kind) => cluster.problems[kind] ?? 0}
                href={(kind) => resourcesHref({ cluster: cluster.id, kind })}
              />
              <Namespaces cluster={cluster} category={category} />
            </>
          )}
        </TabPanel>
      ))}
    </Tabs>
  );
}

function CategoryTitle({ category, cluster }: { category: Category; cluster: Cluster }) {
  const total = category.kinds.reduce((count, kind) => count + (cluster.counts[kind] ?? 0), 0);
  const problems = category.id === "events" ? 0 : category.kinds.reduce((count, kind) => count + (cluster.problems[kind] ?? 0), 0);
  return (
    <>
      {problems > 0 && (
        <>
          <StatusIcon status="warning" />
          <span className="visually-hidden">{problems} problems in </span>
        </>
      )}
      {category.title}
      <span className="tab-count">{grouped(total)}</span>
    </>
  );
}

function Namespaces({ cluster, category }: { cluster: Cluster; category: Category }) {
  const query = useQuery(queries.namespaces(cluster.id));
  const { data, error } = query;
  const [text, setText] = useState("");
  const found = data?.items.filter((namespace) => namespace.name.includes(text.trim().toLowerCase())) ?? [];
  const many = (data?.items.length ?? 0) > MANY;
  return (
    <Section
      title="Namespaces"
      note={data !== undefined ? grouped(data.items.length) : error === null ? <Skeleton width="2rem" /> : undefined}
      action={
        many ? (
          <SearchField className="field" aria-label="Filter namespaces" value={text} onChange={setText}>
            <Icon name="filter" />
            <Input placeholder="Filter" spellCheck={false} />
          </SearchField>
        ) : undefined
      }
    >
      <QueryView query={query} what="the namespaces" lines={8}>
        {() =>
          found.length === 0 ? (
            <Empty title={text === "" ? "No namespaces." : `No namespace contains “${text}”.`} />
          ) : (
            <Grid
              label="Namespaces"
              columns={namespaceColumns(cluster.id, category)}
              count={found.length}
              row={(index) => found[index]}
              rowKey={(namespace) => namespace.name}
              href={(namespace) => namespaceHref(cluster.id, namespace.name)}
              muted={() => cluster.state !== "connected"}
              narrow={(namespace) => (
                <>
                  <div className="line">
                    <Link className="mono name" href={namespaceHref(cluster.id, namespace.name)} tabIndex={-1}>
                      {namespace.name}
                    </Link>
                    <NamespaceProblems namespace={namespace} />
                  </div>
                  <div className="line quiet">
                    <span>{grouped(namespace.objects)} objects</span>
                    <span>{namespace.phase}</span>
                  </div>
                </>
              )}
            />
          )
        }
      </QueryView>
    </Section>
  );
}

function NamespaceProblems({ namespace }: { namespace: NamespaceSummary }) {
  if (namespace.problems === 0) return <span className="quiet">none</span>;
  return <StatusWord status={{ class: "warning", word: grouped(namespace.problems) }} />;
}

/** Kinds of the category in a namespace have columns, so that a tab compares namespaces. */
function namespaceColumns(cluster: string, category: Category): Column<NamespaceSummary>[] {
  const kinds = category.kinds.filter((kind) => kind !== "Node" && !kind.startsWith("ClusterRole"));
  return [
    {
      id: "name",
      title: "Name",
      width: "minmax(10rem, 2fr)",
      cell: (namespace) => (
        <Link className="mono name" href={namespaceHref(cluster, namespace.name)} tabIndex={-1} title={namespace.name}>
          {namespace.name}
        </Link>
      ),
    },
    {
      id: "phase",
      title: "Phase",
      width: "minmax(5rem, 1fr)",
      cell: (namespace) => (
        <span className={namespace.phase === "Active" ? "quiet" : undefined}>{namespace.phase ?? "–"}</span>
      ),
    },
    { id: "problems", title: "Problems", width: "minmax(5rem, 0.8fr)", cell: (namespace) => <NamespaceProblems namespace={namespace} /> },
    ...kinds.map((kind) => ({
      id: kind,
      title: plural(kind === "PersistentVolumeClaim" ? "PVC" : kind),
      width: "minmax(4.5rem, 1fr)",
      end: true,
      cell: (namespace: NamespaceSummary) => {
        const count = namespace.counts[kind] ?? 0;
        if (count === 0) return <span className="quiet number">0</span>;
        return (
          <Link className="number" href={resourcesHref({ cluster, kind, namespace: namespace.name })} tabIndex={-1}>
            {grouped(count)}
          </Link>
        );
      },
    })),
    {
      id: "objects",
      title: "All objects",
      width: "minmax(5rem, 1fr)",
      end: true,
      cell: (namespace) => <Count value={namespace.objects} />,
    },
  ];
}
