// Where the page is in the fleet; each part opens its siblings.
import { useQuery } from "@tanstack/react-query";
import { Fragment, useState } from "react";
import { queries } from "../api/queries";
import type { ObjectDetail } from "../api/types";
import { grouped, isClusterWide, KINDS, plural } from "../model/kinds";
import { stateWord } from "../model/status";
import { clusterHref, namespaceHref, objectHref, resourcesHref, type Route } from "../model/urls";
import { Link } from "../router";
import { Icon } from "./icons";
import { type Choice, Pick } from "./pick";

/** How many siblings of an object its menu names. */
const SIBLINGS = 100;

export function Crumbs({ route }: { route: Route }) {
  switch (route.page) {
    case "fleet":
      return <Trail>{[<Crumb key="fleet" text="Fleet" />]}</Trail>;
    case "resources":
      return <Trail>{[<Crumb key="resources" text="Resources" />]}</Trail>;
    case "search":
      return <Trail>{[<Crumb key="search" text="Search" />]}</Trail>;
    case "settings":
      return <Trail>{[<Crumb key="settings" text="Settings" />]}</Trail>;
    case "unknown":
      return <Trail>{[<Crumb key="fleet" text="Fleet" href="/" />]}</Trail>;
    case "cluster":
      return <Trail>{[FLEET, <ClusterCrumb key="cluster" id={route.cluster} isLast />]}</Trail>;
    case "namespace":
      return (
        <Trail>
          {[
            FLEET,
            <ClusterCrumb key="cluster" id={route.cluster} />,
            <NamespaceCrumb key="namespace" cluster={route.cluster} name={route.namespace} isLast />,
          ]}
        </Trail>
      );
    case "object":
      return <ObjectTrail cluster={route.cluster} uid={route.uid} />;
  }
}

const FLEET = <Crumb key="fleet" text="Fleet" href="/" />;

function Trail({ children }: { children: React.ReactElement[] }) {
  return (
    <nav className="crumbs" aria-label="Breadcrumbs">
      <ol>
        {children.map((crumb, index) => (
          <Fragment key={crumb.key}>
            {index > 0 && (
              <li className="crumb-break" aria-hidden="true">
                /
              </li>
            )}
            {crumb}
          </Fragment>
        ))}
      </ol>
    </nav>
  );
}

interface CrumbProps {
  text: string;
  /** Where it leads; without it, it is the page itself. */
  href?: string;
  mono?: boolean;
  siblings?: { label: string; choices: readonly Choice[]; selected: string; onOpen?(): void; emptyText?: string };
}

function Crumb({ text, href, mono = false, siblings }: CrumbProps) {
  const className = mono ? "crumb-text mono" : "crumb-text";
  return (
    <li className="crumb">
      {href === undefined ? (
        <span className={className} aria-current="page" title={text}>
          {text}
        </span>
      ) : (
        <Link className={className} href={href} title={text}>
          {text}
        </Link>
      )}
      {siblings !== undefined && (
        <Pick className="crumb-more" {...siblings}>
          <Icon name="down" />
        </Pick>
      )}
    </li>
  );
}

function ClusterCrumb({ id, isLast = false }: { id: string; isLast?: boolean }) {
  const { data } = useQuery(queries.clusters());
  const name = data?.items.find((cluster) => cluster.id === id)?.name ?? id;
  const choices = (data?.items ?? []).map((cluster) => ({
    id: cluster.id,
    text: cluster.name,
    href: clusterHref(cluster.id),
    note: stateWord(cluster.state),
    mono: true,
  }));
  return (
    <Crumb
      text={name}
      mono
      {...(isLast ? {} : { href: clusterHref(id) })}
      siblings={{ label: "Other clusters", choices, selected: id }}
    />
  );
}

function NamespaceCrumb({ cluster, name, isLast = false }: { cluster: string; name: string; isLast?: boolean }) {
  const [isOpen, setOpen] = useState(false);
  const { data } = useQuery({ ...queries.namespaces(cluster), enabled: isOpen });
  const choices = (data?.items ?? []).map((namespace) => ({
    id: namespace.name,
    text: namespace.name,
    href: namespaceHref(cluster, namespace.name),
    note: String(namespace.objects),
    mono: true,
  }));
  return (
    <Crumb
      text={name}
      mono
      {...(isLast ? {} : { href: namespaceHref(cluster, name) })}
      siblings={{
        label: "Other namespaces",
        choices,
        selected: name,
        onOpen: () => setOpen(true),
        emptyText: data ? "No other namespace" : "Loading",
      }}
    />
  );
}

/** A kind of a namespace, or of a cluster for kinds that belong to no namespace. Its siblings are the other kinds there. */
function KindCrumb({ cluster, namespace, kind }: { cluster: string; namespace: string | null; kind: string }) {
  const [isOpen, setOpen] = useState(false);
  const { data } = useQuery({ ...queries.counts(cluster, namespace), enabled: isOpen });
  const counts = new Map(data?.items.map((item) => [item.kind, item.count]));
  const choices = KINDS.filter((other) => isClusterWide(other) === (namespace === null)).map((other) => ({
    id: other,
    text: plural(other),
    href: resourcesHref({ cluster, kind: other, namespace }),
    note: data === undefined ? undefined : grouped(counts.get(other) ?? 0),
  }));
  return (
    <Crumb
      text={plural(kind)}
      href={resourcesHref({ cluster, kind, namespace })}
      siblings={{ label: "Other kinds", choices, selected: kind, onOpen: () => setOpen(true) }}
    />
  );
}

function ObjectTrail({ cluster, uid }: { cluster: string; uid: string }) {
  const { data: object } = useQuery(queries.object(cluster, uid));
  if (object === undefined) {
    return <Trail>{[FLEET, <ClusterCrumb key="cluster" id={cluster} />, <Crumb key="object" text="…" />]}</Trail>;
  }
  const { kind, namespace } = object;
  const parts = [FLEET, <ClusterCrumb key="cluster" id={cluster} />];
  if (namespace !== null) parts.push(<NamespaceCrumb key="namespace" cluster={cluster} name={namespace} />);
  parts.push(<KindCrumb key="kind" cluster={cluster} namespace={namespace} kind={kind} />);
  parts.push(<ObjectCrumb key="object" object={object} />);
  return <Trail>{parts}</Trail>;
}

function ObjectCrumb({ object }: { object: ObjectDetail }) {
  const { cluster, kind, namespace } = object;
  const [isOpen, setOpen] = useState(false);
  const { data } = useQuery({ ...queries.objects({ cluster, kind, namespace, sort: "name", order: "asc" }, SIBLINGS), enabled: isOpen });
  const choices = (data?.items ?? []).map((sibling) => ({
    id: sibling.uid,
    text: sibling.name,
    href: objectHref(sibling),
    note: sibling.status.class === "none" ? undefined : sibling.status.word,
    mono: true,
  }));
  return (
    <Crumb
      text={object.name}
      mono
      siblings={{
        label: `Other ${plural(kind)}`,
        choices,
        selected: object.uid,
        onOpen: () => setOpen(true),
        emptyText: data ? "No other object" : "Loading",
      }}
    />
  );
}
