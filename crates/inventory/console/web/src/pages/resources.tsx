// One list over all clusters. The address holds everything that a person chose.
import { useQuery } from "@tanstack/react-query";
import { useEffect, useState } from "react";
import { useObjectList } from "../api/lists";
import { queries } from "../api/queries";
import type { Cluster } from "../api/types";
import { factsOfKind } from "../model/facts";
import { KINDS, plural } from "../model/kinds";
import { type Filters, objectHref, readFilters, writeFilters } from "../model/urls";
import { navigate, usePlace } from "../router";
import { Command } from "../ui/atoms";
import { useDebounced } from "../ui/debounce";
import { Grid } from "../ui/grid";
import { useMedia, WIDE } from "../ui/media";
import { columnsFor, narrowObject } from "../ui/objects";
import { Heading, ScrollArea, useTitle } from "../ui/page";
import { keep, useKept } from "../ui/preferences";
import { Empty, ENROLL_COMMAND, Failure, INCOMPLETE, RefreshFailure, SilenceNotice } from "../ui/states";
import { ColumnChoice, FilterBar, StatusBar } from "./resources/filters";
import { Views } from "./resources/views";

/** Rows that stand in until the first answer. */
const SKELETON_ROWS = 24;
/** How long the field stands still before the address changes. */
const SETTLE = 150;

export function ResourcesPage() {
  const { search } = usePlace();
  const filters = readFilters(search);
  const { data: clusters } = useQuery(queries.clusters());
  const title = filters.kind === null ? "Resources" : plural(filters.kind);
  useTitle(title);

  // The columns are no other list: they make no entry in the history, and the page stays where it is.
  const change = (part: Partial<Filters>) =>
    navigate(`/resources${writeFilters({ ...readFilters(search), ...part })}`, { replace: Object.keys(part).join() === "columns" });
  const [text, setText] = useNameField(filters, search);

  return (
    <div className="page-fill">
      <header className="page-head">
        <Heading>{title}</Heading>
        <FilterBar filters={filters} clusters={clusters?.items ?? []} text={text} onText={setText} onChange={change} />
      </header>
      <ObjectTable filters={filters} clusters={clusters?.items} onChange={change} />
    </div>
  );
}

/** The text of the name filter. It reaches the address when a person stops typing, and replaces the entry in the history. */
function useNameField(filters: Filters, search: URLSearchParams): [string, (text: string) => void] {
  const { q } = filters;
  const [text, setText] = useState(q);
  const settled = useDebounced(text.trim(), SETTLE);
  useEffect(() => setText(q), [q]);
  useEffect(() => {
    if (settled !== text.trim() || settled === q) return;
    navigate(`/resources${writeFilters({ ...readFilters(search), q: settled })}`, { replace: true, toTop: true });
  }, [settled, text, q, search]);
  return [text, setText];
}

interface ObjectTableProps {
  filters: Filters;
  clusters: readonly Cluster[] | undefined;
  onChange(part: Partial<Filters>): void;
}

function ObjectTable({ filters, clusters, onChange }: ObjectTableProps) {
  const { cluster, kind, namespace, q, status, sort, descending } = filters;
  const objects = useObjectList({ cluster, kind, namespace, q, status, sort, order: descending ? "desc" : "asc" });
  const columnsKey = `columns.${kind ?? "all"}`;
  const kept = useKept(columnsKey);
  const facts = new Set(kind === null ? [] : factsOfKind(kind));
  for (let index = 0; index < Math.min(objects.total ?? 0, 50); index += 1) {
    for (const fact of Object.keys(objects.row(index)?.facts ?? {})) facts.add(fact);
  }
  const { all, shown } = columnsFor({ kind, cluster, namespace, facts, factColumns: useMedia(WIDE) ? 4 : 3 });
  const chosen = new Set(filters.columns ?? kept?.split(",") ?? shown);
  chosen.add("name");

  const onSort = (key: string) => {
    // Names start at A; times start at the latest.
    const first = key !== "name";
    onChange({ sort: key as Filters["sort"], descending: key === sort ? !descending : first });
  };

  return (
    <>
      <div className="above-list">
        <StatusBar filters={filters} onChange={onChange} />
        <SilenceNotice clusters={(clusters ?? []).filter((each) => cluster === null || each.id === cluster)} />
        <Views filters={filters} clusters={clusters ?? []} />
        <ColumnChoice
          columns={all}
          chosen={chosen}
          isDefault={filters.columns === null && kept === null}
          onChange={(columns) => {
            keep(columnsKey, columns === null ? null : columns.join(","));
            onChange({ columns });
          }}
        />
      </div>
      {objects.error !== null && objects.total === null && (
        <Failure error={objects.error} what="the list" onRetry={() => objects.list.retry()} />
      )}
      {objects.error !== null && objects.total !== null && (
        <RefreshFailure error={objects.error} text={INCOMPLETE} onRetry={() => objects.list.retry()} />
      )}
      {objects.total === 0 && <NothingFound filters={filters} clusters={clusters} onChange={onChange} />}
      {objects.total !== 0 && (objects.error === null || objects.total !== null) && (
        <ScrollArea className={objects.outdated ? "page-list outdated" : "page-list"}>
          <Grid
            label={kind === null ? "Objects" : plural(kind)}
            columns={all.filter((column) => chosen.has(column.id))}
            count={objects.total ?? SKELETON_ROWS}
            row={objects.row}
            rowKey={(object) => `${object.cluster}/${object.uid}`}
            href={(object) => objectHref(object)}
            muted={(object) => object.stale}
            narrow={narrowObject}
            sorting={{ key: sort, descending }}
            onSort={onSort}
            onRange={(from, to) => objects.list.want(from, to)}
          />
        </ScrollArea>
      )}
    </>
  );
}

function NothingFound({ filters, clusters, onChange }: ObjectTableProps) {
  if (clusters?.length === 0) {
    return (
      <Empty icon="resources" title="What the clusters run shows here.">
        <p>No cluster reports to this hub yet. This command adds one:</p>
        <Command text={ENROLL_COMMAND} />
      </Empty>
    );
  }
  const what = filters.kind === null || !KINDS.includes(filters.kind) ? "object" : filters.kind;
  const isNarrowed = filters.q !== "" || filters.status !== null || filters.namespace !== null || filters.cluster !== null;
  return (
    <Empty icon="filter" title={isNarrowed ? `No ${what} matches these filters.` : `There is no ${what} in the fleet.`}>
      {isNarrowed && (
        <p>
          <button
            type="button"
            className="button"
            onClick={() => onChange({ q: "", status: null, namespace: null, cluster: null })}
          >
            Remove all filters{filters.kind === null ? "" : ` but the kind`}
          </button>
        </p>
      )}
    </Empty>
  );
}

