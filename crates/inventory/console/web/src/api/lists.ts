// Long lists of objects, kept while a person moves between pages.
import { useMemo, useRef, useSyncExternalStore } from "react";
import { api, type ObjectsQuery } from "./client";
import { type ListView, PagedList } from "./pagedList";
import { type Changes, touchesObjects } from "./queries";
import type { ObjectSummary } from "./types";

/** How many lists are kept after a person left them. */
const KEPT = 8;

interface Kept {
  query: ObjectsQuery;
  list: PagedList<ObjectSummary>;
}

const lists = new Map<string, Kept>();

function listOf(query: ObjectsQuery): PagedList<ObjectSummary> {
  const key = JSON.stringify(query);
  const known = lists.get(key);
  if (known !== undefined) {
    lists.delete(key);
    lists.set(key, known);
    return known.list;
  }
  const list = new PagedList<ObjectSummary>((cursor, limit, signal) => api.objects(query, limit, cursor, signal));
  lists.set(key, { query, list });
  const [oldest] = lists.keys();
  if (lists.size > KEPT && oldest !== undefined) lists.delete(oldest);
  return list;
}

/** Asks again for the lists that the changes touch; without changes for all of them. */
export function refreshLists(changes: Changes | null): void {
  for (const { query, list } of lists.values()) {
    if (changes === null || touchesObjects(query, changes)) list.invalidate();
  }
}

export interface ObjectList extends ListView<ObjectSummary> {
  list: PagedList<ObjectSummary>;
  /** The rows belong to the query before: those of the present one are on their way. */
  outdated: boolean;
}

/** A list of objects. While a new query has no answer, the rows of the one before stay. */
export function useObjectList(query: ObjectsQuery): ObjectList {
  const key = JSON.stringify(query);
  const list = useMemo(() => listOf(JSON.parse(key) as ObjectsQuery), [key]);
  const view = useSyncExternalStore(list.subscribe, list.view);
  const previous = useRef<ListView<ObjectSummary> | null>(null);
  const outdated = view.total === null && view.error === null && previous.current !== null;
  if (view.total !== null) previous.current = view;
  const shown = outdated && previous.current !== null ? previous.current : view;
  return useMemo(() => ({ ...shown, list, outdated }), [shown, list, outdated]);
}
