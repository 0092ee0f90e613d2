// Objects by name, over all clusters.
import { useQuery } from "@tanstack/react-query";
import { useEffect, useState } from "react";
import { Input, SearchField } from "react-aria-components/SearchField";
import { useObjectList } from "../api/lists";
import { queries } from "../api/queries";
import { grouped } from "../model/kinds";
import { objectHref, searchHref } from "../model/urls";
import { navigate, usePlace } from "../router";
import { useDebounced } from "../ui/debounce";
import { Grid } from "../ui/grid";
import { Icon } from "../ui/icons";
import { columnsFor, narrowObject } from "../ui/objects";
import { Heading, ScrollArea, useTitle } from "../ui/page";
import { Empty, Failure, INCOMPLETE, RefreshFailure, SilenceNotice } from "../ui/states";

/** How long the field stands still before the address changes. */
const SETTLE = 150;

export function SearchPage() {
  const { search } = usePlace();
  const q = search.get("q") ?? "";
  useTitle(q === "" ? "Search" : `Search: ${q}`);
  const [text, setText] = useState(q);
  const settled = useDebounced(text.trim(), SETTLE);
  useEffect(() => setText(q), [q]);
  useEffect(() => {
    if (settled === text.trim() && settled !== q) navigate(searchHref(settled), { replace: true, toTop: true });
  }, [settled, text, q]);

  return (
    <div className="page-fill">
      <header className="page-head">
        <div className="search-head">
          <Heading>Search</Heading>
          <SearchField className="field field-large" aria-label="Name" value={text} onChange={setText} autoFocus>
            <Icon name="search" />
            <Input placeholder="A part of a name" spellCheck={false} />
          </SearchField>
        </div>
      </header>
      {q === "" ? (
        <Empty icon="search" title="Search by a part of a name, over all clusters and kinds.">
          <p>
            <kbd>/</kbd> or <kbd>Ctrl K</kbd> opens the search from every page.
          </p>
        </Empty>
      ) : (
        <Results q={q} />
      )}
    </div>
  );
}

function Results({ q }: { q: string }) {
  const objects = useObjectList({ q, sort: "name", order: "asc" });
  const { data: clusters } = useQuery(queries.clusters());
  const { all, shown } = columnsFor({ kind: null, cluster: null, namespace: null, facts: [], factColumns: 0 });
  if (objects.total === null && objects.error !== null) {
    return <Failure error={objects.error} what="the results" onRetry={() => objects.list.retry()} />;
  }
  if (objects.total === 0) {
    return (
      <Empty icon="search" title={`No name contains “${q}”.`}>
        <p>The search looks at the names of objects that exist now, not at labels or images.</p>
      </Empty>
    );
  }
  return (
    <>
      <div className="above-list">
        <p role="status">
          {objects.total === null ? "Searching" : `${grouped(objects.total)} ${objects.total === 1 ? "object" : "objects"}`}
        </p>
        <SilenceNotice clusters={clusters?.items ?? []} />
      </div>
      {objects.error !== null && <RefreshFailure error={objects.error} text={INCOMPLETE} onRetry={() => objects.list.retry()} />}
      <ScrollArea className={objects.outdated ? "page-list outdated" : "page-list"}>
        <Grid
          label="Results"
          columns={all.filter((column) => shown.has(column.id)).map(({ sort: _, ...column }) => column)}
          count={objects.total ?? 12}
          row={objects.row}
          rowKey={(object) => `${object.cluster}/${object.uid}`}
          href={(object) => objectHref(object)}
          muted={(object) => object.stale}
          narrow={narrowObject}
          onRange={(from, to) => objects.list.want(from, to)}
        />
      </ScrollArea>
    </>
  );
}
