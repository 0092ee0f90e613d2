// One object: what it is, what it belongs to, what happened to it, and all that the hub has of it.
import { useQuery } from "@tanstack/react-query";
import { Tab, TabList, TabPanel, Tabs } from "react-aria-components/Tabs";
import { queries } from "../api/queries";
import type { ObjectDetail, RelatedGroup } from "../api/types";
import { clock } from "../model/age";
import { grouped } from "../model/kinds";
import { clusterHref, namespaceHref, objectHref, resourcesHref } from "../model/urls";
import { Link, useSearchValue } from "../router";
import { Age, Fact, Facts, KindLabel, StatusWord } from "../ui/atoms";
import { useNow } from "../ui/clock";
import { EventList } from "../ui/events";
import { RelatedList } from "../ui/objects";
import { Heading, ScrollArea, useTitle } from "../ui/page";
import { Banner, Empty, isNotFound, NotFound, QueryView, SilenceBanner } from "../ui/states";
import { images, Overview } from "./object/overview";
import { Raw } from "./object/raw";

/** How many events the tab of events shows. */
const EVENTS = 200;
/** How many images the header names. */
const IMAGES = 2;

const TABS = ["overview", "related", "events", "raw"];

export function ObjectPage({ cluster, uid }: { cluster: string; uid: string }) {
  const query = useQuery(queries.object(cluster, uid));
  const isMissing = isNotFound(query.error);
  const object = isMissing ? undefined : query.data;
  useTitle(object?.name ?? "Object");
  return (
    <ScrollArea className="page">
      <header className="page-head">
        <div>
          <div className="title-line">
            {object !== undefined && <KindLabel kind={object.kind} />}
            <Heading mono={object !== undefined}>{object?.name ?? (isMissing ? "Not found" : "Object")}</Heading>
            {object !== undefined && object.deleted === null && object.status.word !== "" && <StatusWord status={object.status} />}
            {object !== undefined && object.deleted !== null && <StatusWord status={{ class: "none", word: "Deleted" }} />}
          </div>
        </div>
      </header>
      <QueryView query={query} what="the object" lines={10} notFound={<UnknownObject />}>
        {(data) => <ObjectView object={data} />}
      </QueryView>
    </ScrollArea>
  );
}

function UnknownObject() {
  return (
    <NotFound title="The hub knows no object at this address.">
      <p>It may have been deleted so long ago that the hub has forgotten it.</p>
    </NotFound>
  );
}

function ObjectView({ object }: { object: ObjectDetail }) {
  const [tab, setTab] = useSearchValue("tab", "overview");
  const { data: cluster } = useQuery(queries.cluster(object.cluster));
  const { data: related } = useQuery(queries.related(object.cluster, object.uid));
  const relatedCount = related?.groups.reduce((total, group) => total + group.items.length, 0);
  return (
    <>
      {cluster === undefined && object.stale && <Banner tone="warning">The agent of {object.cluster_name} is silent.</Banner>}
      <SilenceBanner cluster={cluster} />
      {object.deleted !== null && <DeletedBanner object={object} />}
      <ObjectFacts object={object} groups={related?.groups ?? []} />
      <Tabs className="tabs" selectedKey={TABS.includes(tab) ? tab : "overview"} onSelectionChange={(key) => setTab(String(key))}>
        <TabList className="tab-list" aria-label="Parts of the object">
          <Tab id="overview" className="tab">
            Overview
          </Tab>
          <Tab id="related" className="tab">
            Related
            {relatedCount !== undefined && relatedCount > 0 && <span className="tab-count">{grouped(relatedCount)}</span>}
          </Tab>
          <Tab id="events" className="tab">
            Events
          </Tab>
          <Tab id="raw" className="tab">
            Raw
          </Tab>
        </TabList>
        <TabPanel id="overview" className="tab-panel">
          <Overview object={object} groups={related?.groups ?? []} />
        </TabPanel>
        <TabPanel id="related" className="tab-panel">
          <Related object={object} />
        </TabPanel>
        <TabPanel id="events" className="tab-panel">
          <EventList
            title="Events"
            query={{ cluster: object.cluster, involved: object.uid }}
            limit={EVENTS}
            columns={["reason", "message", "count", "last"]}
            empty={
              <Empty title={`No events about this ${object.kind}.`}>
                <p>Kubernetes keeps its events for about an hour; new ones show here.</p>
              </Empty>
            }
          />
        </TabPanel>
        <TabPanel id="raw" className="tab-panel">
          <Raw object={object} />
        </TabPanel>
      </Tabs>
    </>
  );
}

function DeletedBanner({ object }: { object: ObjectDetail }) {
  const now = useNow();
  if (object.deleted === null) return null;
  return (
    <Banner tone="none">
      This {object.kind} was deleted <Age time={object.deleted} suffix=" ago" /> (at {clock(object.deleted, now)}). What you see is its last
      known state.{" "}
      <Link href={resourcesHref({ cluster: object.cluster, kind: object.kind, namespace: object.namespace })}>Those that exist now</Link>
    </Banner>
  );
}

function ObjectFacts({ object, groups }: { object: ObjectDetail; groups: readonly RelatedGroup[] }) {
  const { node } = object.facts;
  const nodeObject = groups.flatMap((group) => group.items).find((item) => item.kind === "Node" && item.name === node);
  const owners = groups.find((group) => /belongs to|created by/i.test(group.relation))?.items ?? [];
  const used = images(object.object);
  return (
    <Facts>
      <Fact name="Cluster" mono>
        <Link href={clusterHref(object.cluster)}>{object.cluster_name}</Link>
      </Fact>
      {object.namespace !== null && (
        <Fact name="Namespace" mono>
          <Link href={namespaceHref(object.cluster, object.namespace)}>{object.namespace}</Link>
        </Fact>
      )}
      <Fact name="Age">
        <Age time={object.created} />
      </Fact>
      <Fact name="Changed">
        <Age time={object.changed} suffix=" ago" />
      </Fact>
      {owners.length > 0 && (
        <Fact name="Owner" mono>
          {owners.slice(0, 2).map((owner) => (
            <Link key={owner.uid} href={objectHref(owner)}>
              {owner.kind} {owner.name}
            </Link>
          ))}
        </Fact>
      )}
      {node && (
        <Fact name="Node" mono>
          <Link href={nodeObject ? objectHref(nodeObject) : resourcesHref({ cluster: object.cluster, kind: "Node", q: node })}>{node}</Link>
        </Fact>
      )}
      {object.facts.ready && <Fact name="Ready">{object.facts.ready}</Fact>}
      {object.facts.restarts && <Fact name="Restarts">{object.facts.restarts}</Fact>}
      {used.length > 0 && (
        <Fact name={used.length === 1 ? "Image" : "Images"} mono>
          <span title={used.join("\n")}>
            {used.slice(0, IMAGES).join(", ")}
            {used.length > IMAGES && ` and ${used.length - IMAGES} more`}
          </span>
        </Fact>
      )}
    </Facts>
  );
}

function Related({ object }: { object: ObjectDetail }) {
  return (
    <QueryView query={useQuery(queries.related(object.cluster, object.uid))} what="related objects" lines={6}>
      {(data) => <RelatedGroups groups={data.groups.filter((group) => group.items.length > 0)} />}
    </QueryView>
  );
}

function RelatedGroups({ groups }: { groups: readonly RelatedGroup[] }) {
  if (groups.length === 0) {
    return (
      <Empty title="The hub knows nothing that is related to it.">
        <p>Objects are related by owner, selector, node, volume and the names that they refer to.</p>
      </Empty>
    );
  }
  return <RelatedList groups={groups} />;
}
