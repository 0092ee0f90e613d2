// Filters that a person keeps under a name.
import { plural } from "./kinds";
import { classWord } from "./status";
import { type Filters, NO_FILTERS, readFilters, writeFilters } from "./urls";

export interface View {
  name: string;
  /** The search part of the address, such as `?kind=Pod`. */
  search: string;
}

/** Views that everybody has. */
export const COMMON_VIEWS: readonly View[] = [
  { name: "Everything that fails", search: writeFilters({ ...NO_FILTERS, status: "error" }) },
  { name: "Latest changes", search: writeFilters({ ...NO_FILTERS, sort: "changed", descending: true }) },
];

/** A name for filters by what they say: "Pods · payments · failing". */
export function viewName(filters: Filters, clusterName: string | null): string {
  const parts = [filters.kind === null ? "Objects" : plural(filters.kind)];
  if (clusterName !== null) parts.push(clusterName);
  if (filters.namespace !== null) parts.push(filters.namespace);
  if (filters.q !== "") parts.push(`“${filters.q}”`);
  if (filters.status !== null) parts.push(classWord(filters.status).toLowerCase());
  if (filters.sort !== "name") parts.push(`by ${filters.sort === "changed" ? "change" : "age"}`);
  return parts.join(" · ");
}

/** Reads kept views. What is not a view, or no longer means anything, is left out. */
export function readViews(text: string | null): View[] {
  try {
    const list: unknown = JSON.parse(text ?? "[]");
    if (!Array.isArray(list)) return [];
    return list.flatMap((item: Partial<View> | null) => {
      if (typeof item?.name !== "string" || typeof item.search !== "string") return [];
      const search = writeFilters(readFilters(new URLSearchParams(item.search)));
      return search === "" ? [] : [{ name: item.name, search }];
    });
  } catch {
    return [];
  }
}

/** The views after these filters were kept, or forgotten if they were kept before. */
export function toggleView(views: readonly View[], view: View): View[] {
  const others = views.filter((known) => known.search !== view.search);
  return others.length < views.length ? others : [...views, view].sort((left, right) => left.name.localeCompare(right.name));
}
