// Every page is a URL, and the URL is the whole state of the page.
import type { StatusClass } from "../api/types";
import { isStatusClass } from "./status";

export type Route =
  | { page: "fleet" }
  | { page: "cluster"; cluster: string }
  | { page: "namespace"; cluster: string; namespace: string }
  | { page: "object"; cluster: string; uid: string }
  | { page: "resources" }
  | { page: "search" }
  | { page: "settings" }
  | { page: "unknown" };

/** Reads the page from a path. */
export function readRoute(path: string): Route {
  const parts = path.split("/").filter((part) => part !== "");
  const [first, second, third, fourth] = parts.map(decode);
  if (parts.length === 0) return { page: "fleet" };
  if (parts.length === 1 && (first === "resources" || first === "search" || first === "settings")) return { page: first };
  if (first === "clusters" && second !== undefined) {
    if (parts.length === 2) return { page: "cluster", cluster: second };
    if (parts.length === 4 && fourth !== undefined) {
      if (third === "namespaces") return { page: "namespace", cluster: second, namespace: fourth };
      if (third === "objects") return { page: "object", cluster: second, uid: fourth };
    }
  }
  return { page: "unknown" };
}

function decode(part: string): string {
  try {
    return decodeURIComponent(part);
  } catch {
    return part;
  }
}

export type SortKey = "name" | "changed" | "created";

/** What a list of objects shows. */
export interface Filters {
  cluster: string | null;
  kind: string | null;
  namespace: string | null;
  q: string;
  status: StatusClass | null;
  sort: SortKey;
  descending: boolean;
  /** The columns to show, or null for those that fit the kind. */
  columns: string[] | null;
}

export const NO_FILTERS: Filters = {
  cluster: null,
  kind: null,
  namespace: null,
  q: "",
  status: null,
  sort: "name",
  descending: false,
  columns: null,
};

/** Reads filters from the search part of a URL. What it does not know is left out. */
export function readFilters(search: URLSearchParams): Filters {
  const status = search.get("status");
  const sort = search.get("sort") ?? "name";
  const key = sort.replace(/^-/, "");
  return {
    cluster: search.get("cluster") || null,
    kind: search.get("kind") || null,
    namespace: search.get("namespace") || null,
    q: search.get("q") ?? "",
    status: isStatusClass(status) ? status : null,
    sort: key === "changed" || key === "created" ? key : "name",
    descending: sort.startsWith("-"),
    columns: search.get("columns")?.split(",").filter(Boolean) ?? null,
  };
}

/** Writes filters as the search part of a URL; filters that say nothing are left out. */
export function writeFilters(filters: Filters): string {
  const search = new URLSearchParams();
  if (filters.cluster) search.set("cluster", filters.cluster);
  if (filters.kind) search.set("kind", filters.kind);
  if (filters.namespace) search.set("namespace", filters.namespace);
  if (filters.q) search.set("q", filters.q);
  if (filters.status) search.set("status", filters.status);
  if (filters.sort !== "name" || filters.descending) {
    search.set("sort", `${filters.descending ? "-" : ""}${filters.sort}`);
  }
  if (filters.columns) search.set("columns", filters.columns.join(","));
  const text = search.toString().replaceAll("%2C", ",");
  return text === "" ? "" : `?${text}`;
}

export function resourcesHref(filters: Partial<Filters>): string {
  return `/resources${writeFilters({ ...NO_FILTERS, ...filters })}`;
}

export function clusterHref(cluster: string, tab?: string): string {
  return withTab(`/clusters/${encodeURIComponent(cluster)}`, tab);
}

export function namespaceHref(cluster: string, namespace: string): string {
  return `/clusters/${encodeURIComponent(cluster)}/namespaces/${encodeURIComponent(namespace)}`;
}

export function objectHref(object: { cluster: string; uid: string }, tab?: string): string {
  return withTab(`/clusters/${encodeURIComponent(object.cluster)}/objects/${encodeURIComponent(object.uid)}`, tab);
}

export function searchHref(q: string): string {
  return q === "" ? "/search" : `/search?${new URLSearchParams({ q })}`;
}

function withTab(path: string, tab: string | undefined): string {
  return tab === undefined ? path : `${path}?tab=${encodeURIComponent(tab)}`;
}
