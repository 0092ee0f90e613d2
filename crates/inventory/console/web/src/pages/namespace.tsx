// One namespace: what changed last, what warns, and what is in it by kind.
import { useQuery } from "@tanstack/react-query";
import { ApiError } from "../api/client";
import { queries } from "../api/queries";
import type { KindCount } from "../api/types";
import { CATEGORIES, grouped, isClusterWide } from "../model/kinds";
import { clusterHref, resourcesHref } from "../model/urls";
import { Link } from "../router";
import { Fact, Facts, KindLabel, Problems, Section, StateWord } from "../ui/atoms";
import { EventList } from "../ui/events";
import { KindGroup } from "../ui/kinds";
import { ShortList } from "../ui/objects";
import { Heading, ScrollArea, useTitle } from "../ui/page";
import { Bones, Empty, Failure, NotFound, SilenceBanner } from "../ui/states";

/** How many changes and events the page shows. */
const CHANGES = 15;
/** How many of the latest changes are asked for: events of Kubernetes among them are left out, they have a list of their own. */
const CHANGES_ASKED = 100;
const EVENTS = 15;

export function NamespacePage({ cluster: id, name }: { cluster: string; name: string }) {
  useTitle(name);
  const { data: cluster, error: clusterError } = useQuery(queries.cluster(id));
  const { data: counts, error, refetch } = useQuery(queries.counts(id, name));
  const isNotFound = [error, clusterError].some((each) => each instanceof ApiError && each.isNotFound);
  const items = counts?.items ?? [];
  const objects = items.reduce((total, item) => total + item.count, 0);
  const problems = Object.fromEntries(items.map((item) => [item.kind, item.problems]));
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
      <SilenceBanner cluster={cluster} />
      {isNotFound && <NotFound title="The hub knows no namespace at this address." />}
      {!isNotFound && counts === undefined && error !== null && (
        <Failure error={error} what="the namespace" onRetry={() => void refetch()} />
      )}
      {!isNotFound && (counts === undefined || cluster === undefined) && error === null && <Bones lines={8} label="Loading the namespace" />}
      {counts !== undefined && cluster !== undefined && (
        <>
          <Facts>
            <Fact name="Cluster">
              <Link className="mono" href={clusterHref(id)}>
                {cluster.name}
              </Link>
              <StateWord cluster={cluster} />
            </Fact>
            <Fact name="Objects">
              <Link href={resourcesHref({ cluster: id, namespace: name })}>{grouped(objects)}</Link>
            </Fact>
            <Fact name="Problems">
              <Problems problems={problems} />
            </Fact>
          </Facts>
          {objects === 0 ? (
            <Empty title="This namespace is empty, or it is gone.">
              <p>
                <Link href={clusterHref(id)}>All namespaces of {cluster.name}</Link>
              </p>
            </Empty>
          ) : (
            <Contents cluster={id} name={name} items={items} />
          )}
        </>
      )}
    </ScrollArea>
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
  const { data, error, refetch } = useQuery(
    queries.objects({ cluster, namespace: name, sort: "changed", order: "desc" }, CHANGES_ASKED),
  );
  const changed = data?.items.filter((object) => object.kind !== "Event").slice(0, CHANGES) ?? [];
  const all = resourcesHref({ cluster, namespace: name, sort: "changed", descending: true });
  return (
    <Section title="Latest changes" action={<Link href={all}>All by change</Link>}>
      {data === undefined && error !== null && <Failure error={error} what="the changes" onRetry={() => void refetch()} />}
      {data === undefined && error === null && <Bones lines={8} label="Loading changes" />}
      {data !== undefined && <ShortList title="Latest changes" objects={changed} columns={["name", "kind", "status", "changed"]} />}
    </Section>
  );
}
