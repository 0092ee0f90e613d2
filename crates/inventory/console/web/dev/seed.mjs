// Sends the made-up fleet to a running hub, as its agents would. For looking at the console with a real hub.
//
//   node dev/seed.mjs --hub PROGRAM --data DIR [--pod NAME]
//
// Adds a client for each cluster, gets tokens and sends snapshots; the pending cluster sends nothing. With --pod it then lets a pod
// come, waits for a line on its input, and lets the pod go. It trusts any certificate: never use it beyond this machine.
import { execFileSync } from "node:child_process";
import { createSign, generateKeyPairSync, randomUUID } from "node:crypto";
import { request } from "node:https";
import { createInterface } from "node:readline/promises";
import { parseArgs } from "node:util";
import { fleet, time } from "./data.mjs";

const { values: options } = parseArgs({
  options: { hub: { type: "string" }, data: { type: "string" }, rows: { type: "string", default: "0" }, pod: { type: "string" } },
});

const ARRAYS = {
  Namespace: "namespaces",
  Pod: "pods",
  Service: "services",
  Node: "nodes",
  Deployment: "deployments",
  StatefulSet: "statefulsets",
  DaemonSet: "daemonsets",
  Job: "jobs",
  CronJob: "cronjobs",
  Ingress: "ingresses",
  NetworkPolicy: "network_policies",
  ConfigMap: "configmaps",
  Secret: "secrets",
  PersistentVolumeClaim: "pvcs",
  ServiceAccount: "service_accounts",
  Role: "roles",
  ClusterRole: "cluster_roles",
  RoleBinding: "role_bindings",
  ClusterRoleBinding: "cluster_role_bindings",
  Event: "events",
};

function post(url, headers, body) {
  return new Promise((resolve, reject) => {
    const sent = request(url, { method: "POST", headers, rejectUnauthorized: false }, (response) => {
      let text = "";
      response.on("data", (part) => (text += part));
      response.on("end", () => (response.statusCode < 300 ? resolve(text) : reject(new Error(`${url}: ${response.statusCode} ${text}`))));
    });
    sent.on("error", reject);
    sent.end(body);
  });
}

/** An agent: a key pair that the hub knows, and a token. */
async function enroll(name) {
  const { publicKey, privateKey } = generateKeyPairSync("ec", { namedCurve: "P-256" });
  const added = execFileSync(options.hub, ["client", "add", "--name", name, "--json", "--data-dir", options.data], {
    input: publicKey.export({ type: "spki", format: "pem" }),
  });
  const { client_id: id, urls } = JSON.parse(added);
  const now = Math.floor(Date.now() / 1000);
  const part = (value) => Buffer.from(JSON.stringify(value)).toString("base64url");
  const text = `${part({ alg: "ES256", typ: "JWT" })}.${part({ iss: id, sub: id, aud: [urls[0]], iat: now, exp: now + 300, jti: randomUUID() })}`;
  const signature = createSign("sha256").update(text).sign({ key: privateKey, dsaEncoding: "ieee-p1363" }).toString("base64url");
  const form = new URLSearchParams({ grant_type: "urn:ietf:params:oauth:grant-type:jwt-bearer", assertion: `${text}.${signature}` });
  const token = async () =>
    JSON.parse(await post(`${urls[0]}/oauth/token`, { "Content-Type": "application/x-www-form-urlencoded" }, String(form))).access_token;
  return { token, url: urls[0] };
}

const { clusters, objects } = fleet(Date.now(), Number(options.rows));
let first = null;
for (const cluster of clusters) {
  const agent = await enroll(cluster.name);
  if (cluster.uid === null) continue;
  const token = await agent.token();
  const headers = { "Content-Type": "application/json", Authorization: `Bearer ${token}` };
  const body = { cluster_uid: cluster.uid, cluster_name: cluster.name, kubernetes_version: cluster.kubernetes_version, agent_version: cluster.agent_version };
  for (const [kind, array] of Object.entries(ARRAYS)) {
    body[array] = objects.filter((entry) => entry.cluster === cluster.id && entry.kind === kind).map((entry) => entry.object);
  }
  await post(`${agent.url}/api/v1/agent/snapshot`, headers, JSON.stringify(body));
  console.log(`sent ${cluster.name}`);
  first ??= { url: agent.url, headers, cluster_uid: cluster.uid };
}
if (options.pod && first) {
  const uid = randomUUID();
  const head = { cluster_uid: first.cluster_uid, kind: "Pod", uid, name: options.pod, namespace: "default" };
  const containers = [{ name: "main", image: "registry.internal/demo:1", state: "running", ready: true, restart_count: 0, resources: {} }];
  const object = { uid, name: options.pod, namespace: "default", phase: "Running", k8s_created_at: time(Date.now()), containers };
  await post(`${first.url}/api/v1/agent/events`, first.headers, JSON.stringify({ ...head, type: "added", object }));
  console.log(`pod ${options.pod} is there`);
  const lines = createInterface({ input: process.stdin });
  await lines.question("");
  lines.close();
  await post(`${first.url}/api/v1/agent/events`, first.headers, JSON.stringify({ ...head, type: "deleted" }));
  console.log(`pod ${options.pod} is gone`);
}
