// What the hub answers, by the names that the console uses.
import type { components } from "./schema";

type Schemas = components["schemas"];

export type Alert = Schemas["Alert"];
export type Cluster = Schemas["Cluster"];
export type ClusterList = Schemas["ClusterList"];
export type ClusterState = Schemas["ClusterState"];
export type ErrorDetail = Schemas["ErrorDetail"];
export type EventPage = Schemas["EventList"];
export type KindCount = Schemas["KindCount"];
export type KindCountList = Schemas["KindCountList"];
export type KubernetesEvent = Schemas["KubernetesEvent"];
export type NamespaceList = Schemas["NamespaceList"];
export type NamespaceSummary = Schemas["Namespace"];
/** The projection has the fields of its kind, which the API does not describe. */
export type ObjectDetail = Omit<Schemas["ObjectDetail"], "object"> & { object: Record<string, unknown> };
export type ObjectPage = Schemas["ObjectList"];
export type ObjectSummary = Schemas["ObjectSummary"];
export type RelatedGroup = Schemas["RelatedGroup"];
export type RelatedList = Schemas["RelatedList"];
export type Status = Schemas["Status"];
export type StatusClass = Schemas["StatusClass"];
