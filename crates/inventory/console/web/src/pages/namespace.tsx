// One namespace: what changed last, what warns, and what is in it by kind.
import { useQuery } from "@tanstack/react-query";
import { queries } from "../api/queries";
import type { Cluster, KindCount } from "../api/types";
import { CATEGORIES, grouped, isClusterWide } from "../model/kinds";
import { clusterHref, resourcesHref } from "../model/urls";
import { Link } from "../router";
import { Fact, Facts, KindLabel, Problems, Section, StateWord } from "../ui/atoms";
import { EventList } from "../ui/events";
import { KindGroup } from "../ui/kinds";
import { ShortList } from "../ui/objects";
import { Heading, ScrollArea, useTitle } from "../ui/page";
import { Empty, NotFound, QueryView, SilenceBanner } from "../ui/states";

/** How many changes and events the page shows. */
const CHANGES = 15;
/** How many of the latest changes are asked for: events of Kubernetes among them are left out, they have a list of their own. */
const CHANGES_ASKED = 100;
const EVENTS = 15;

export function NamespacePage({ cluster: id, name }: { cluster: string; name: string }) {
  useTitle(name);
  const clusterQuery = useQuery(queries.cluster(id));
  const countsQuery = useQuery(queries.counts(id, name));
  const notFound = <NotFound title="The hub knows no namespace at this address." />;
  return (
    <ScrollArea className="page">
      <header className="page-head">
        <div>
          <div className="title-line">
            <KindLabel kind="Namespace" />
            <Heading mono>{name}</Heading>
          </div>
        </div>
      </header>
      <QueryView query={clusterQuery} what="the cluster" lines={8} notFound={notFound}>
        {(cluster) => (
          <>
            <SilenceBanner cluster={cluster} />
            <QueryView query={countsQuery} what="the namespace" lines={8} notFound={notFound}>
              {({ items }) => <NamespaceView cluster={cluster} name={name} items={items} />}
            </QueryView>
          </>
        )}
      </QueryView>
    </ScrollArea>
  );
}

interface NamespaceViewProps {
  cluster: Cluster;
  name: string;
  items: readonly KindCount[];
}

function NamespaceView({ cluster, name, items }: NamespaceViewProps) {
  const objects = items.reduce((total, item) => total + item.count, 0);
  const problems = Object.fromEntries(items.map((item) => [item.kind, item.problems]));
  return (
    <>
      <Facts>
        <Fact name="Cluster">
          <Link className="mono" href={clusterHref(cluster.id)}>
            {cluster.name}
          </Link>
          <StateWord cluster={cluster} />
        </Fact>
        <Fact name="Objects">
          <Link href={resourcesHref({ cluster: cluster.id, namespace: name })}>{grouped(objects)}</Link>
        </Fact>
        <Fact name="Problems">
          <Problems problems={problems} />
        </Fact>
      </Facts>
      {objects === 0 ? (
        <Empty title="This namespace is empty, or it is gone.">
          <p>
            <Link href={clusterHref(cluster.id)}>All namespaces of {cluster.name}</Link>
          </p>
        </Empty>
      ) : (
        <Contents cluster={cluster.id} name={name} items={items} />
      )}
    </>
  );
}

function Contents({ cluster, name, items }: { cluster: string; name: string; items: readonly KindCount[] }) {
  const byKind = new Map(items.map((item) => [item.kind, item]));
  return (
    <>
      <div className="kind-groups">
        {CATEGORIES.filter((category) => category.id !== "events").map((category) => (
          <KindGroup
            key={category.id}
            title={category.title === "Storage & nodes" ? "Storage" : category.title}
            kinds={category.kinds.filter((kind) => !isClusterWide(kind))}
            count={(kind) => byKind.get(kind)?.count ?? 0}
            problems={(kind) => byKind.get(kind)?.problems ?? 0}
            href={(kind) => resourcesHref({ cluster, namespace: name, kind })}
          />
        ))}
      </div>
      <div className="pair">
        <Changes cluster={cluster} name={name} />
        <Section title="Latest events">
          <EventList
            title="Latest events"
            query={{ cluster, namespace: name }}
            limit={EVENTS}
            columns={["reason", "about", "message", "last"]}
            empty={<Empty title="No events.">{<p>Kubernetes keeps its events for about an hour; new ones show here.</p>}</Empty>}
          />
        </Section>
      </div>
    </>
  );
}

function Changes({ cluster, name }: { cluster: string; name: string }) {
  const query = useQuery(queries.objects({ cluster, namespace: name, sort: "changed", order: "desc" }, CHANGES_ASKED));
  const all = resourcesHref({ cluster, namespace: name, sort: "changed", descending: true });
  return (
    <Section title="Latest changes" action={<Link href={all}>All by change</Link>}>
      <QueryView query={query} what="the changes" lines={8}>
        {({ items }) => (
          <ShortList
            title="Latest changes"
            objects={items.filter((object) => object.kind !== "Event").slice(0, CHANGES)}
            columns={["name", "kind", "status", "changed"]}
          />
        )}
      </QueryView>
    </Section>
  );
}
