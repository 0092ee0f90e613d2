// Lists of objects: their columns, and short lists inside of other pages.
import type { ReactNode } from "react";
import type { ObjectSummary, RelatedGroup } from "../api/types";
import { isMono, isNumber, isTime, label, orderFacts, short, summaryLine } from "../model/facts";
import { clusterHref, namespaceHref, objectHref } from "../model/urls";
import { Link } from "../router";
import { Age, KindLabel, StatusWord } from "./atoms";
import { type Column, Grid } from "./grid";

type ObjectColumn = Column<ObjectSummary>;

const NAME: ObjectColumn = {
  id: "name",
  title: "Name",
  width: "minmax(12rem, 2.2fr)",
  sort: "name",
  cell: (object) => (
    <Link className="mono name" href={objectHref(object)} tabIndex={-1} title={object.name}>
      {object.name}
    </Link>
  ),
};

const STATUS: ObjectColumn = {
  id: "status",
  title: "Status",
  width: "minmax(7.25rem, 0.8fr)",
  cell: (object) => <StatusWord status={object.status} />,
};

const KIND: ObjectColumn = {
  id: "kind",
  title: "Kind",
  width: "minmax(9rem, 0.9fr)",
  cell: (object) => <KindLabel kind={object.kind} />,
};

const NAMESPACE: ObjectColumn = {
  id: "namespace",
  title: "Namespace",
  width: "minmax(5.5rem, 1fr)",
  cell: (object) =>
    object.namespace === null ? (
      <span className="quiet">–</span>
    ) : (
      <Link className="mono" href={namespaceHref(object.cluster, object.namespace)} tabIndex={-1} title={object.namespace}>
        {object.namespace}
      </Link>
    ),
};

const CLUSTER: ObjectColumn = {
  id: "cluster",
  title: "Cluster",
  width: "minmax(5.5rem, 0.9fr)",
  cell: (object) => (
    <Link className="mono" href={clusterHref(object.cluster)} tabIndex={-1} title={object.cluster_name}>
      {object.cluster_name}
    </Link>
  ),
};

const DETAILS: ObjectColumn = {
  id: "details",
  title: "Details",
  width: "minmax(8rem, 1.8fr)",
  cell: (object) => {
    const text = summaryLine(object);
    return (
      <span className="cut" title={text}>
        {text}
      </span>
    );
  },
};

const CREATED: ObjectColumn = {
  id: "created",
  title: "Age",
  width: "3.75rem",
  end: true,
  sort: "created",
  cell: (object) => <Age time={object.created} />,
};

const CHANGED: ObjectColumn = {
  id: "changed",
  title: "Changed",
  width: "5.5rem",
  end: true,
  sort: "changed",
  cell: (object) => <Age time={object.changed} suffix=" ago" />,
};

function factColumn(key: string): ObjectColumn {
  const width = key === "image" || key === "message" ? "minmax(6rem, 1.5fr)" : isNumber(key) ? "4.25rem" : "minmax(5rem, 1fr)";
  return {
    id: key,
    title: label(key),
    width,
    end: isNumber(key),
    cell: (object) => {
      const value = object.facts[key];
      if (!value) return <span className="quiet">–</span>;
      if (isTime(value)) return <Age time={value} suffix=" ago" />;
      const isZero = value === "0";
      return (
        <span className={`cut${isMono(key) ? " mono" : ""}${isZero ? " quiet" : ""}`} title={value}>
          {short(key, value)}
        </span>
      );
    },
  };
}

interface ColumnsQuery {
  kind: string | null;
  cluster: string | null;
  namespace: string | null;
  /** The names of facts that were seen. */
  facts: Iterable<string>;
  /** How many of them have a column unless a person chooses. */
  factColumns: number;
}

/** All columns for a list, and those that are shown unless a person chooses. */
export function columnsFor({ kind, cluster, namespace, facts, factColumns: shownFacts }: ColumnsQuery) {
  const factColumns = kind === null ? [] : orderFacts(facts).map(factColumn);
  const all: ObjectColumn[] = [NAME, STATUS, KIND, NAMESPACE, CLUSTER, ...factColumns, DETAILS, CREATED, CHANGED];
  const shown = new Set(["name", "status", "created", "changed"]);
  if (kind === null) shown.add("kind").add("details");
  if (namespace === null) shown.add("namespace");
  if (cluster === null) shown.add("cluster");
  for (const column of factColumns.slice(0, shownFacts)) shown.add(column.id);
  return { all, shown };
}

/** Two lines about an object, for a narrow screen. */
export function narrowObject(object: ObjectSummary): ReactNode {
  return (
    <>
      <div className="line">
        <Link className="mono name" href={objectHref(object)} tabIndex={-1}>
          {object.name}
        </Link>
        <StatusWord status={object.status} />
      </div>
      <div className="line quiet">
        <span className="cut">
          {object.kind} · {object.namespace === null ? "" : `${object.namespace} · `}
          {object.cluster_name}
        </span>
        <Age time={object.changed} suffix=" ago" />
      </div>
    </>
  );
}

interface Relative {
  relation: string;
  isFirst: boolean;
  object: ObjectSummary;
}

/** Related objects as one list; the relation stands beside the first object of each group. */
export function RelatedList({ groups }: { groups: readonly RelatedGroup[] }) {
  const rows: Relative[] = groups.flatMap(({ relation, items }) => items.map((object, index) => ({ relation, isFirst: index === 0, object })));
  const columns: Column<Relative>[] = [
    {
      id: "relation",
      title: "Relation",
      width: "minmax(6.5rem, 0.8fr)",
      cell: ({ relation, isFirst }) => <span className={isFirst ? undefined : "visually-hidden"}>{relation}</span>,
    },
    ...[NAME, KIND, STATUS, DETAILS, CHANGED].map(({ id, title, width, end, cell }) => ({
      id,
      title,
      width,
      end: end ?? false,
      cell: ({ object }: Relative) => cell(object),
    })),
  ];
  return (
    <Grid
      label="Related objects"
      columns={columns}
      count={rows.length}
      row={(index) => rows[index]}
      rowKey={({ relation, object }) => `${relation} ${object.uid}`}
      href={({ object }) => objectHref(object)}
      muted={({ object }) => object.stale}
      narrow={({ relation, object }) => (
        <>
          <div className="line">
            <Link className="mono name" href={objectHref(object)} tabIndex={-1}>
              {object.name}
            </Link>
            <StatusWord status={object.status} />
          </div>
          <div className="line quiet">
            <span className="cut">
              {relation}: {object.kind}
            </span>
            <Age time={object.changed} suffix=" ago" />
          </div>
        </>
      )}
    />
  );
}

/** A short list inside of a page. `columns` names them in their order. */
export function ShortList({ title, objects, columns }: { title: string; objects: readonly ObjectSummary[]; columns: readonly string[] }) {
  const known = [NAME, STATUS, KIND, NAMESPACE, CLUSTER, DETAILS, CREATED, CHANGED].map(({ sort: _, ...column }) => column as ObjectColumn);
  return (
    <Grid
      label={title}
      columns={columns.flatMap((id) => known.find((column) => column.id === id) ?? [])}
      count={objects.length}
      row={(index) => objects[index]}
      rowKey={(object) => `${object.cluster}/${object.uid}`}
      href={(object) => objectHref(object)}
      muted={(object) => object.stale}
      narrow={narrowObject}
    />
  );
}
