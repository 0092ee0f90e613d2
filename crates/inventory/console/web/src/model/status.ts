// The words for classes of status and states of clusters.
import type { Cluster, ClusterState, StatusClass } from "../api/types";

/** The classes in the order in which a person wants to see them. */
export const STATUS_CLASSES: readonly StatusClass[] = ["error", "warning", "progress", "ok", "none"];

const CLASS_WORDS: Record<StatusClass, string> = {
  error: "Failing",
  warning: "Warning",
  progress: "In progress",
  ok: "Fine",
  none: "No status",
};

export function classWord(status: StatusClass): string {
  return CLASS_WORDS[status];
}

export function isStatusClass(word: string | null): word is StatusClass {
  return word !== null && Object.hasOwn(CLASS_WORDS, word);
}

const STATE_WORDS: Record<ClusterState, string> = {
  pending: "Pending",
  connected: "Connected",
  stale: "Stale",
  disconnected: "Disconnected",
};

export function stateWord(state: ClusterState): string {
  return STATE_WORDS[state];
}

/** The class whose icon and colour a state of a cluster shares. */
export function stateClass(state: ClusterState): StatusClass {
  switch (state) {
    case "connected":
      return "ok";
    case "stale":
      return "warning";
    case "disconnected":
      return "error";
    case "pending":
      return "progress";
  }
}

/** Whether what the hub shows of a cluster may no longer be true. */
export function isSilent(cluster: Pick<Cluster, "state">): boolean {
  return cluster.state === "stale" || cluster.state === "disconnected";
}
