// Times in the words of the reader.
import type { Cluster } from "../api/types";

const SECOND = 1000;
const MINUTE = 60 * SECOND;
const HOUR = 60 * MINUTE;
const DAY = 24 * HOUR;

/** The length of a time span, such as "4 min", in its largest useful unit. A span below zero counts as none. */
export function span(milliseconds: number): string {
  const length = Math.max(0, milliseconds);
  if (length < MINUTE) return `${Math.floor(length / SECOND)} s`;
  if (length < HOUR) return `${Math.floor(length / MINUTE)} min`;
  if (length < 2 * DAY) return `${Math.floor(length / HOUR)} h`;
  if (length < 730 * DAY) return `${Math.floor(length / DAY)} d`;
  return `${Math.floor(length / (365 * DAY))} y`;
}

/** How long ago a time was, such as "4 min"; "–" if the time is unknown. */
export function age(time: string | null | undefined, now: number): string {
  const at = moment(time);
  return at === null ? "–" : span(now - at);
}

/** How long ago a time was, as part of a sentence: "just now", "4 min ago", "never". */
export function ago(time: string | null | undefined, now: number): string {
  const at = moment(time);
  if (at === null) return "never";
  return now - at < 5 * SECOND ? "just now" : `${span(now - at)} ago`;
}

/** The time of day, with the date if it is not today: "10:42", "17 Nov 10:42". */
export function clock(time: string, now: number): string {
  const at = moment(time);
  if (at === null) return time;
  const date = new Date(at);
  const hours = `${two(date.getHours())}:${two(date.getMinutes())}`;
  const today = new Date(now);
  if (date.toDateString() === today.toDateString()) return hours;
  const day = date.toLocaleDateString("en-GB", { day: "numeric", month: "short" });
  return date.getFullYear() === today.getFullYear() ? `${day} ${hours}` : `${day} ${date.getFullYear()} ${hours}`;
}

/** The whole time with its zone, for the title of an age. */
export function full(time: string): string {
  const at = moment(time);
  if (at === null) return time;
  return new Date(at).toLocaleString("en-GB", { dateStyle: "medium", timeStyle: "long" });
}

/** Why the data of a cluster is old, as one sentence; null while the cluster is connected. */
export function silence(cluster: Cluster, now: number): string | null {
  const { state, last_contact: contact } = cluster;
  if (state === "connected") return null;
  if (state === "pending") return "The agent of this cluster has not reached the hub yet.";
  if (contact === null) return "The agent has not reached the hub since the cluster was added.";
  return `Data is ${age(contact, now)} old: the agent has not reached the hub since ${clock(contact, now)}.`;
}

function moment(time: string | null | undefined): number | null {
  if (!time) return null;
  const at = Date.parse(time);
  // The year 1 stands for an unset time in what older agents send.
  return Number.isNaN(at) || at <= 0 ? null : at;
}

function two(number: number): string {
  return String(number).padStart(2, "0");
}
