// The kinds of the inventory: their order, their groups, and how sentences name them.

export interface Category {
  id: string;
  title: string;
  kinds: readonly string[];
}

export const CATEGORIES: readonly Category[] = [
  {
    id: "workloads",
    title: "Workloads",
    kinds: ["Deployment", "StatefulSet", "DaemonSet", "Pod", "Job", "CronJob"],
  },
  { id: "network", title: "Network", kinds: ["Service", "Ingress", "NetworkPolicy"] },
  { id: "config", title: "Config", kinds: ["ConfigMap", "Secret"] },
  { id: "storage", title: "Storage & nodes", kinds: ["PersistentVolumeClaim", "Node"] },
  {
    id: "rbac",
    title: "RBAC",
    kinds: ["ServiceAccount", "Role", "RoleBinding", "ClusterRole", "ClusterRoleBinding"],
  },
  { id: "events", title: "Events", kinds: ["Event"] },
];

/** Kinds that belong to no namespace. */
const CLUSTER_WIDE = new Set(["Namespace", "Node", "ClusterRole", "ClusterRoleBinding"]);

/** All kinds in the order of the pages. */
export const KINDS: readonly string[] = ["Namespace", ...CATEGORIES.flatMap((category) => category.kinds)];

export function isClusterWide(kind: string): boolean {
  return CLUSTER_WIDE.has(kind);
}

const PLURALS = new Map([
  ["Ingress", "Ingresses"],
  ["NetworkPolicy", "NetworkPolicies"],
]);

/** The kind for a heading or a menu: "Pods", "NetworkPolicies". */
export function plural(kind: string): string {
  return PLURALS.get(kind) ?? `${kind}s`;
}

const SPOKEN = new Map<string, [one: string, many: string]>([
  ["PersistentVolumeClaim", ["volume claim", "volume claims"]],
  ["Ingress", ["ingress", "ingresses"]],
  ["NetworkPolicy", ["network policy", "network policies"]],
]);

/** A number of objects in a sentence: "1 pod", "12 stateful sets". */
export function counted(kind: string, count: number): string {
  const words = kind.replace(/([a-z])([A-Z])/g, "$1 $2").toLowerCase();
  const [one, many] = SPOKEN.get(kind) ?? [words, `${words}s`];
  return `${grouped(count)} ${count === 1 ? one : many}`;
}

const TROUBLE = new Map([
  ["Job", "failed"],
  ["PersistentVolumeClaim", "not bound"],
  ["Namespace", "terminating"],
]);

/** What is wrong with an object of a kind that counts as a problem: "not ready", "failed". */
export function troubleWord(kind: string): string {
  return TROUBLE.get(kind) ?? "not ready";
}

/** Kinds with problems and their number, the largest first. Warnings of Kubernetes are about objects, which count themselves. */
export function problemKinds(problems: Record<string, number>): [kind: string, count: number][] {
  return Object.entries(problems)
    .filter(([kind, count]) => count > 0 && kind !== "Event")
    .sort(([, left], [, right]) => right - left);
}

/** All that is wrong, the most first: "7 pods, 1 node not ready; 1 job failed". */
export function troubles(problems: Record<string, number>): string {
  const byWord = new Map<string, string[]>();
  for (const [kind, count] of problemKinds(problems)) {
    const word = troubleWord(kind);
    byWord.set(word, [...(byWord.get(word) ?? []), counted(kind, count)]);
  }
  return [...byWord].map(([word, counts]) => `${counts.join(", ")} ${word}`).join("; ");
}

/** A number with thin groups of three digits: "12,480". */
export function grouped(count: number): string {
  return count.toLocaleString("en-GB");
}

/** How many objects have a problem. */
export function problemCount(problems: Record<string, number>): number {
  return problemKinds(problems).reduce((total, [, count]) => total + count, 0);
}
