// Facts about an object: short texts by name, as the hub derives them from each kind.
import type { ObjectSummary } from "../api/types";
import factsByKind from "./facts.json";

/** Facts in the order of their worth; others follow by name. */
const ORDER = [
  "ready",
  "completions",
  "restarts",
  "reason",
  "object",
  "node",
  "schedule",
  "type",
  "hosts",
  "class",
  "cluster_ip",
  "ports",
  "role",
  "subjects",
  "roles",
  "version",
  "size",
  "storage_class",
  "keys",
  "rules",
  "resources",
  "image",
  "message",
];

const BY_KIND = new Map<string, readonly string[]>(Object.entries(factsByKind));

/** The facts that objects of a kind have, so that the columns of a list stand before its rows come. A test of the hub reads the same file. */
export function factsOfKind(kind: string): readonly string[] {
  return BY_KIND.get(kind) ?? [];
}

const WORDS = new Map(
  Object.entries({
    ip: "IP",
    uid: "UID",
    id: "ID",
    cpu: "CPU",
    os: "OS",
    tls: "TLS",
    pvc: "PVC",
    qos: "QoS",
    url: "URL",
    dns: "DNS",
    k8s: "Kubernetes",
  }),
);

/** The name of a field for people: "cluster_ip" becomes "Cluster IP". */
export function label(key: string): string {
  const words = key
    .replace(/([a-z])([A-Z])/g, "$1_$2")
    .split(/[_\s]+/)
    .filter(Boolean)
    .map((word) => WORDS.get(word.toLowerCase()) ?? word.toLowerCase());
  const text = words.join(" ");
  return text.charAt(0).toUpperCase() + text.slice(1);
}

/** The name of a field inside of a sentence: "cluster IP", "keys". */
function inSentence(key: string): string {
  return label(key).replace(/^[A-Z](?=[a-z])/, (letter) => letter.toLowerCase());
}

/** Names of facts, the most useful first. */
export function orderFacts(keys: Iterable<string>): string[] {
  const rank = (key: string) => {
    const at = ORDER.indexOf(key);
    return at < 0 ? ORDER.length : at;
  };
  return [...new Set(keys)].sort((left, right) => rank(left) - rank(right) || left.localeCompare(right));
}

/** Facts that read best in a fixed-width font. */
const MONO = ["address", "cluster_ip", "hosts", "image", "ip", "node", "object", "owner", "role", "schedule", "service", "subjects", "version", "volume"];

export function isMono(key: string): boolean {
  return MONO.includes(key);
}

/** Facts whose values are numbers and stand to the right. */
const NUMBERS = ["active", "completions", "count", "cpu", "keys", "memory", "pods", "ready", "restarts", "rules", "secrets", "size"];

export function isNumber(key: string): boolean {
  return NUMBERS.includes(key);
}

/** Every fact that has an order, a font or a side of its own. */
export const NAMED_FACTS: readonly string[] = [...ORDER, ...MONO, ...NUMBERS];

const KIBI_IN_GIBI = 1024 * 1024;

/** Memory in a unit for people. */
export function memory(value: string): string {
  const kibi = /^(\d+)Ki$/.exec(value)?.[1];
  return kibi === undefined ? value : `${Math.round(Number(kibi) / KIBI_IN_GIBI)} GiB`;
}

/** A fact in few characters: an image without its registry, a node without its domain. */
export function short(key: string, value: string): string {
  if (key === "image") return value.slice(value.lastIndexOf("/") + 1);
  if (key === "node") return value.split(".", 1)[0] ?? value;
  return key === "memory" ? memory(value) : value;
}

/** Whether a fact is a point in time. */
export function isTime(value: string): boolean {
  return /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ$/.test(value);
}

/** One line about an object of any kind: what is wrong first, then what it is. */
export function summaryLine(object: Pick<ObjectSummary, "facts" | "status">): string {
  const { facts } = object;
  const parts: string[] = [];
  if (facts.reason && facts.reason !== object.status.word) parts.push(facts.reason);
  if (facts.ready) parts.push(`${facts.ready} ready`);
  if (facts.restarts && facts.restarts !== "0") parts.push(`${facts.restarts} ${facts.restarts === "1" ? "restart" : "restarts"}`);
  for (const key of orderFacts(Object.keys(facts))) {
    if (parts.length >= 3) break;
    if (["reason", "ready", "restarts"].includes(key) || isTime(facts[key] ?? "")) continue;
    const value = facts[key];
    if (!value || value === "0") continue;
    parts.push(isNumber(key) && /^\d+$/.test(value) ? `${value} ${inSentence(key)}` : short(key, value));
  }
  return parts.join(" · ");
}
