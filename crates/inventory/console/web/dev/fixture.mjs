// A hub without a hub: serves the built console, a fleet that was made up, and the stream of changes. For screenshots and tests.
//
//   node dev/fixture.mjs [--port 4180] [--rows 50000] [--empty] [--quiet]
//
// Requests below /fixture change what it serves:
//   POST /fixture/pod?name=NAME        a pod of that name comes;  DELETE: it goes
//   POST /fixture/outage               every API request fails with 503 and the stream ends;  DELETE: all is well again
//   POST /fixture/forbid               every API request is refused with 403;  DELETE: all is well again
//   POST /fixture/hold                 API requests wait, the stream does not;  DELETE: they are answered
//   POST /fixture/fail-pages           the second page of every list fails with 503;  DELETE: all is well again
//   POST /fixture/sign-out             the session ends;  DELETE: it is back
//   GET  /fixture/streams              how many streams of changes are open
import { createHash, randomUUID } from "node:crypto";
import { existsSync, readFileSync } from "node:fs";
import { createServer } from "node:http";
import { extname, join, normalize } from "node:path";
import { fileURLToPath } from "node:url";
import { parseArgs } from "node:util";
import { fleet, time } from "./data.mjs";
import { factsOf, relatedTo, statusOf } from "./derive.mjs";

const { values: options } = parseArgs({
  options: {
    port: { type: "string", default: "4180" },
    rows: { type: "string", default: "0" },
    empty: { type: "boolean", default: false },
    quiet: { type: "boolean", default: false },
  },
});

/** The content security policy of the hub, from its source. */
const POLICY = (() => {
  const source = readFileSync(new URL("../../../hub/src/api/guard.rs", import.meta.url), "utf8");
  const literal = /const POLICY: &str = "([^"]+)";/.exec(source)?.[1];
  if (literal === undefined) throw new Error("crates/inventory/hub/src/api/guard.rs has no constant POLICY");
  // A backslash at the end of a line of a Rust string joins it with the next.
  return literal.replace(/\\\n\s*/g, "");
})();
const TYPES = { ".html": "text/html; charset=utf-8", ".js": "text/javascript; charset=utf-8", ".css": "text/css; charset=utf-8", ".svg": "image/svg+xml" };
const dist = fileURLToPath(new URL("../dist", import.meta.url));

const SORTS = {
  name: (entry) => `${entry.name.toLowerCase()}\u0000${entry.cluster}\u0000${entry.uid}`,
  changed: (entry) => `${String(entry.changed).padStart(16, "0")}\u0000${entry.uid}`,
  created: (entry) => `${String(entry.created).padStart(16, "0")}\u0000${entry.uid}`,
};

const state = { outage: false, forbid: false, hold: false, failPages: false, signedOut: false };
/** Answers that wait until requests are no longer held. */
const held = [];
const streams = new Set();
let { clusters, objects } = options.empty ? { clusters: [], objects: [] } : fleet(Date.now(), Number(options.rows));
const activity = new Map(clusters.map((cluster, place) => [cluster.id, Array.from({ length: 30 }, (_, minute) => (cluster.nodes === 0 || (cluster.state === "stale" && minute > 24) ? 0 : Math.round(6 + 5 * Math.sin(minute / 3 + place) + ((minute * 7919) % 9) + (minute === 21 ? 38 : 0))))]));
for (const entry of objects) derive(entry);
sortByName();

/** The usual order of lists, kept so that a list of 50,000 rows is not sorted for each page. */
function sortByName() {
  const keys = new Map(objects.map((entry) => [entry, SORTS.name(entry)]));
  objects.sort((left, right) => (keys.get(left) < keys.get(right) ? -1 : 1));
}

function derive(entry) {
  entry.status = statusOf(entry);
  entry.facts = factsOf(entry);
}

const live = () => objects.filter((entry) => entry.deleted === null);
const isProblem = (entry) => entry.status.class === "error" || entry.status.class === "warning";

function summary(entry) {
  const cluster = clusters.find((one) => one.id === entry.cluster);
  const { uid, kind, namespace, name, status, facts } = entry;
  return { cluster: entry.cluster, cluster_name: cluster.name, stale: cluster.state !== "connected", uid, kind, namespace, name, status, facts, created: time(entry.created), changed: time(entry.changed) };
}

function tally(entries) {
  const [counts, problems] = [{}, {}];
  for (const entry of entries) {
    counts[entry.kind] = (counts[entry.kind] ?? 0) + 1;
    if (isProblem(entry)) problems[entry.kind] = (problems[entry.kind] ?? 0) + 1;
  }
  return { counts, problems };
}

function clusterView(cluster) {
  const now = Date.now();
  const own = live().filter((entry) => entry.cluster === cluster.id);
  // The connected cluster reports now and then; the stale one stays silent since the start.
  const contact = cluster.contact === null ? null : cluster.state === "connected" ? now - (now % 15_000) : started - cluster.contact;
  return {
    id: cluster.id,
    name: cluster.name,
    uid: cluster.uid,
    state: cluster.state,
    state_since: time(started - cluster.since),
    last_contact: contact === null ? null : time(contact),
    last_snapshot: cluster.snapshot === null ? null : time(started - cluster.snapshot),
    heartbeat_seconds: cluster.contact === null ? null : 60,
    kubernetes_version: cluster.kubernetes_version,
    agent_version: cluster.agent_version,
    objects: own.length,
    ...tally(own),
    alerts: [],
    activity: activity.get(cluster.id),
  };
}


function listObjects(query) {
  const limit = Math.min(500, Number(query.get("limit") ?? 100));
  const key = SORTS[query.get("sort") ?? "name"];
  if (key === undefined) return null;
  const descending = query.get("order") === "desc";
  const q = query.get("q")?.toLowerCase();
  const wanted = ["cluster", "kind", "namespace"].map((name) => [name, query.get(name)]).filter(([, value]) => value);
  const found = live()
    .filter((entry) => wanted.every(([name, value]) => entry[name] === value))
    .filter((entry) => !q || entry.name.toLowerCase().includes(q))
    .filter((entry) => !query.get("status") || entry.status.class === query.get("status"))
    .map((entry) => [key(entry), entry]);
  if (key !== SORTS.name) found.sort(([left], [right]) => (left < right ? -1 : 1));
  if (descending) found.reverse();
  const cursor = query.get("cursor") && Buffer.from(query.get("cursor"), "base64url").toString();
  const rest = cursor ? found.filter(([at]) => (descending ? at < cursor : at > cursor)) : found;
  const page = rest.slice(0, limit);
  const next = rest.length > limit ? Buffer.from(page.at(-1)[0]).toString("base64url") : null;
  return { items: page.map(([, entry]) => summary(entry)), next, total: found.length };
}

function listEvents(query) {
  const limit = Math.min(500, Number(query.get("limit") ?? 100));
  const items = live()
    .filter((entry) => entry.kind === "Event")
    .filter((entry) => !query.get("cluster") || entry.cluster === query.get("cluster"))
    .filter((entry) => !query.get("namespace") || entry.namespace === query.get("namespace"))
    .filter((entry) => !query.get("involved") || entry.object.involved_object.uid === query.get("involved"))
    .filter((entry) => !query.get("type") || entry.object.type === query.get("type"))
    .sort((left, right) => (left.object.last_timestamp < right.object.last_timestamp ? 1 : -1))
    .map(({ cluster, uid, namespace, object }) => ({ cluster, uid, namespace, type: object.type, reason: object.reason, message: object.message, count: object.count, first: object.first_timestamp, last: object.last_timestamp, involved: { namespace: null, ...object.involved_object }, source: object.source.component ?? null }));
  return { items: items.slice(0, limit), next: items.length > limit ? "more" : null };
}

function namespaces(id) {
  const own = live().filter((entry) => entry.cluster === id);
  const items = own
    .filter((entry) => entry.kind === "Namespace")
    .map((entry) => {
      const inside = own.filter((other) => other.namespace === entry.name);
      const known = inside.filter((other) => other.kind !== "Event");
      return { name: entry.name, phase: entry.object.phase, uid: entry.uid, objects: inside.length, problems: known.filter(isProblem).length, counts: tally(inside).counts };
    });
  return { items: items.sort((left, right) => (left.name < right.name ? -1 : 1)) };
}

/** The answer of an API path, or null if there is none. */
function answer(path, query) {
  const parts = path.split("/").slice(3).map(decodeURIComponent);
  if (parts[0] === "objects" && parts.length === 1) return listObjects(query);
  if (parts[0] === "events" && parts.length === 1) return listEvents(query);
  if (parts[0] !== "clusters") return null;
  if (parts.length === 1) return { items: clusters.map(clusterView) };
  const cluster = clusters.find((one) => one.id === parts[1]);
  if (cluster === undefined) return null;
  if (parts.length === 2) return clusterView(cluster);
  if (parts[2] === "namespaces" && parts.length === 3) return namespaces(cluster.id);
  if (parts[2] === "agents" && parts.length === 3) return { items: [] };
  if (parts[2] === "counts" && parts.length === 3) {
    const namespace = query.get("namespace");
    const { counts, problems } = tally(live().filter((entry) => entry.cluster === cluster.id && (!namespace || entry.namespace === namespace)));
    return { items: Object.entries(counts).map(([kind, count]) => ({ kind, count, problems: problems[kind] ?? 0 })) };
  }
  const entry = objects.find((one) => one.cluster === cluster.id && one.uid === parts[3]);
  if (parts[2] !== "objects" || entry === undefined) return null;
  if (parts.length === 4) return { ...summary(entry), object: entry.object, first_seen: time(entry.first_seen), deleted: entry.deleted && time(entry.deleted) };
  if (parts[4] === "related") return { groups: relatedTo(entry, live()).map(({ relation, items }) => ({ relation, items: items.map(summary) })) };
  return null;
}

function announce(cluster, kinds) {
  const minutes = activity.get(cluster);
  if (minutes) minutes[29] += 1;
  for (const stream of streams) stream.write(`event: change\ndata: ${JSON.stringify({ cluster, kinds, at: time(Date.now()) })}\n\n`);
}

/** Puts a pod into the connected cluster or takes it away. */
function changePod(method, name) {
  const cluster = clusters[0];
  const known = objects.find((entry) => entry.kind === "Pod" && entry.name === name && entry.deleted === null);
  if (method === "DELETE" && known) {
    known.deleted = Date.now();
  } else if (method === "POST" && !known) {
    const now = Date.now();
    const entry = { cluster: cluster.id, uid: randomUUID(), kind: "Pod", namespace: "default", name, created: now, changed: now, first_seen: now, deleted: null, object: { name, namespace: "default", phase: "Running", k8s_created_at: time(now), containers: [{ name: "main", image: "registry.internal/demo:1", state: "running", ready: true, restart_count: 0, resources: {} }] } };
    entry.object.uid = entry.uid;
    derive(entry);
    objects.push(entry);
    sortByName();
    announce(cluster.id, ["Pod"]);
    return entry.uid;
  }
  announce(cluster.id, ["Pod"]);
  return known?.uid ?? "";
}

function control(request, response, path, query) {
  const isOn = request.method === "POST";
  const name = path.slice("/fixture/".length);
  if (name === "streams") return response.end(String(streams.size));
  const text = name === "pod" ? changePod(request.method, query.get("name")) : "";
  if (name === "outage") state.outage = isOn;
  if (name === "forbid") state.forbid = isOn;
  if (name === "hold") state.hold = isOn;
  if (name === "fail-pages") state.failPages = isOn;
  if (name === "sign-out") state.signedOut = isOn;
  if (isOn && (name === "outage" || name === "sign-out")) for (const stream of streams) stream.end();
  if (!state.hold) for (const answerNow of held.splice(0)) answerNow();
  response.end(text);
}

function sendJson(request, response, status, body) {
  const text = JSON.stringify(body);
  const tag = `"${createHash("sha256").update(text).digest("hex").slice(0, 16)}"`;
  const isSame = status === 200 && request.headers["if-none-match"] === tag;
  response.writeHead(isSame ? 304 : status, { "Content-Type": "application/json", ETag: tag, "Cache-Control": "no-cache, private" });
  response.end(isSame ? undefined : text);
}

function fail(request, response, status, code, message) {
  sendJson(request, response, status, { error: { code, message, request_id: randomUUID().slice(0, 8) } });
}

function serveApi(request, response, path, query) {
  if (state.signedOut) return fail(request, response, 401, "signed_out", "there is no session");
  if (state.outage) return fail(request, response, 503, "unavailable", "the database does not answer");
  if (state.forbid) return fail(request, response, 403, "forbidden", "this session may not read inventory");
  if (state.failPages && query.has("cursor")) return fail(request, response, 503, "unavailable", "the database does not answer");
  if (path === "/api/v1/live") {
    response.writeHead(200, { "Content-Type": "text/event-stream", "Cache-Control": "no-store" });
    // Tests of a lost hub wait for the return: the hub asks for two seconds.
    response.write("retry: 200\n\n");
    streams.add(response);
    response.on("close", () => streams.delete(response));
    return;
  }
  if (path === "/api/v1/sign-out" && request.method === "POST") {
    state.signedOut = true;
    response.writeHead(204).end();
    return;
  }
  const body = answer(path, query);
  if (body === null) return fail(request, response, 404, "not_found", "there is nothing at this path");
  sendJson(request, response, 200, body);
}

function serveFile(request, response, path) {
  const wanted = join(dist, normalize(path));
  const isFile = extname(path) !== "" && wanted.startsWith(dist) && existsSync(wanted);
  const file = isFile ? wanted : join(dist, "index.html");
  const isPacked = /\bbr\b/.test(request.headers["accept-encoding"] ?? "") && existsSync(`${file}.br`);
  response.writeHead(200, {
    "Content-Type": TYPES[extname(file)] ?? "application/octet-stream",
    "Cache-Control": path.startsWith("/assets/") ? "public, max-age=31536000, immutable" : "no-cache",
    "Content-Security-Policy": POLICY,
    ...(isPacked ? { "Content-Encoding": "br" } : {}),
  });
  response.end(readFileSync(isPacked ? `${file}.br` : file));
}

const started = Date.now();
const server = createServer((request, response) => {
  const url = new URL(request.url, "http://localhost");
  if (url.pathname.startsWith("/fixture/")) return control(request, response, url.pathname, url.searchParams);
  if (url.pathname === "/health") return sendJson(request, response, 200, { status: "ok" });
  if (!url.pathname.startsWith("/api/")) return serveFile(request, response, url.pathname);
  const serve = () => serveApi(request, response, url.pathname, url.searchParams);
  if (state.hold && url.pathname !== "/api/v1/live") held.push(serve);
  else serve();
});
server.listen(Number(options.port), "127.0.0.1", () => {
  if (!options.quiet) console.log(`${clusters.length} clusters, ${objects.length} objects: http://127.0.0.1:${server.address().port}/`);
});
setInterval(() => {
  for (const stream of streams) stream.write(": still here\n\n");
}, 15_000).unref();
