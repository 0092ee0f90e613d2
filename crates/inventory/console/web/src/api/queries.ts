// Queries by name, and which of them a change in a cluster touches.
import { keepPreviousData, QueryClient, queryOptions, type Query } from "@tanstack/react-query";
import { ApiError, api, type EventsQuery, type ObjectsQuery } from "./client";

/** How often a request that did not reach the hub is tried again before the page says so. */
const RETRIES = 2;
/** How often a visible page asks when each cluster was last in contact: the hub announces no heartbeats. */
export const POLL = 15_000;

export function createQueryClient(): QueryClient {
  return new QueryClient({
    defaultOptions: {
      queries: {
        staleTime: 15_000,
        gcTime: 5 * 60_000,
        // The stream opens when a page becomes visible, and every open asks for everything again.
        refetchOnWindowFocus: false,
        // A hub on this machine can be reached without a network.
        networkMode: "always",
        retry: (count, error) => {
          const answered = error instanceof ApiError && error.status > 0 && error.status < 500;
          return !answered && count < RETRIES;
        },
        retryDelay: (attempt) => 400 * 2 ** attempt,
      },
    },
  });
}

export const queries = {
  clusters: () =>
    queryOptions({ queryKey: ["clusters"], queryFn: ({ signal }) => api.clusters(signal), refetchInterval: POLL }),
  cluster: (id: string) =>
    queryOptions({ queryKey: ["cluster", id], queryFn: ({ signal }) => api.cluster(id, signal), refetchInterval: POLL }),
  counts: (id: string, namespace: string | null) =>
    queryOptions({ queryKey: ["counts", id, namespace], queryFn: ({ signal }) => api.counts(id, namespace, signal) }),
  namespaces: (id: string) =>
    queryOptions({ queryKey: ["namespaces", id], queryFn: ({ signal }) => api.namespaces(id, signal) }),
  objects: (query: ObjectsQuery, limit: number) =>
    queryOptions({
      queryKey: ["objects", query, limit],
      queryFn: ({ signal }) => api.objects(query, limit, null, signal),
      placeholderData: keepPreviousData,
    }),
  object: (id: string, uid: string) =>
    queryOptions({ queryKey: ["object", id, uid], queryFn: ({ signal }) => api.object(id, uid, signal) }),
  related: (id: string, uid: string) =>
    queryOptions({ queryKey: ["related", id, uid], queryFn: ({ signal }) => api.related(id, uid, signal) }),
  events: (query: EventsQuery, limit: number) =>
    queryOptions({ queryKey: ["events", query, limit], queryFn: ({ signal }) => api.events(query, limit, null, signal) }),
};

/** What changed: for each cluster the kinds, or null if everything may have. */
export type Changes = ReadonlyMap<string, ReadonlySet<string> | null>;

/** Whether a list of objects may look different after the changes. */
export function touchesObjects(query: ObjectsQuery, changes: Changes): boolean {
  for (const [cluster, kinds] of changes) {
    if (query.cluster && query.cluster !== cluster) continue;
    if (!query.kind || kinds === null || kinds.has(query.kind)) return true;
  }
  return false;
}

/** Whether the answer of a query may be different after the changes. */
export function touches(query: Pick<Query, "queryKey">, changes: Changes): boolean {
  const [name, second] = query.queryKey;
  switch (name) {
    case "clusters":
      return changes.size > 0;
    case "objects":
      return touchesObjects(second as ObjectsQuery, changes);
    case "events":
      return touchesObjects({ cluster: (second as EventsQuery).cluster ?? null, kind: "Event" }, changes);
    default:
      return changes.has(String(second));
  }
}

/**
 * Asks again for what the changes touch; without changes for everything. A first request that is under way may have been answered before
 * the change: React Query does not repeat it, so it is asked again when it is done.
 */
export function refresh(client: QueryClient, changes: Changes | null): void {
  const isTouched = (query: Query) => changes === null || touches(query, changes);
  const loading = client
    .getQueryCache()
    .findAll({ fetchStatus: "fetching", predicate: (query) => query.state.data === undefined && isTouched(query) });
  void client.invalidateQueries({ predicate: isTouched });
  for (const query of loading) {
    // A failed request shows its error and is asked again by hand.
    query.promise?.then(
      () => client.invalidateQueries({ queryKey: query.queryKey, exact: true }),
      () => undefined,
    );
  }
}
