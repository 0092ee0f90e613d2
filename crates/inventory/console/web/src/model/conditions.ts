// What a condition of Kubernetes means for a person.
import type { StatusClass } from "../api/types";

/** Conditions that name something bad: true is a warning, false says nothing. */
const BAD_WHEN_TRUE = new Set([
  "DisruptionTarget",
  "DiskPressure",
  "Failed",
  "FailureTarget",
  "MemoryPressure",
  "NetworkUnavailable",
  "PIDPressure",
  "ReplicaFailure",
]);
/** Conditions that name something under way. */
const UNDER_WAY = new Set(["PodResizeInProgress", "PodResizePending"]);
/** Phases of a pod that has ended: it will never be ready again, and that is no fault. */
const ENDED = new Set<unknown>(["Succeeded", "Failed"]);

/** The class of a condition by its type and status; `phase` is that of its object, if the object has one. */
export function conditionClass(type: string, status: string, phase: unknown): StatusClass {
  if (status === "Unknown") return "warning";
  const isTrue = status === "True";
  if (BAD_WHEN_TRUE.has(type)) return isTrue ? "warning" : "none";
  if (UNDER_WAY.has(type)) return isTrue ? "progress" : "none";
  if (isTrue) return "ok";
  return ENDED.has(phase) ? "none" : "warning";
}
