// A fleet that looks like one: three clusters and about 2,000 objects, the same at every start but for the time.

const MINUTE = 60_000;
const HOUR = 60 * MINUTE;
const DAY = 24 * HOUR;

/** Random numbers that are the same at every start. */
function dice(seed) {
  let state = seed;
  const next = () => {
    state = (state + 0x6d2b79f5) | 0;
    let mixed = Math.imul(state ^ (state >>> 15), 1 | state);
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed;
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 4294967296;
  };
  return {
    below: (limit) => Math.floor(next() * limit),
    of: (list) => list[Math.floor(next() * list.length)],
    chance: (share) => next() < share,
    text: (length) => Array.from({ length }, () => "bcdfghjklmnpqrstvwxz2456789"[Math.floor(next() * 27)]).join(""),
    uuid: () => [8, 4, 4, 4, 12].map((length) => Array.from({ length }, () => Math.floor(next() * 16).toString(16)).join("")).join("-"),
  };
}

export const time = (at) => `${new Date(at).toISOString().slice(0, 19)}Z`;

const APPS = {
  payments: ["checkout-api", "ledger", "card-vault", "fraud-scorer", "payout-worker"],
  storefront: ["web", "catalog", "cart", "search-indexer", "image-resizer", "recommendations"],
  identity: ["login", "session-store", "token-issuer", "audit-writer"],
  logistics: ["shipment-tracker", "warehouse-sync", "label-printer", "route-planner"],
  observability: ["collector", "query-frontend", "alert-router", "trace-store"],
  "ml-serving": ["ranker", "embedder", "feature-cache"],
  "data-platform": ["ingest-gateway", "stream-compactor", "schema-registry", "batch-loader"],
  "ingress-system": ["edge-proxy", "cert-renewer"],
  "trustplane-system": ["trustplane-manager", "trustplane-discovery"],
};

/** Builds objects of one cluster as an agent would send them. */
class Builder {
  constructor(cluster, seed, now) {
    this.cluster = cluster;
    this.dice = dice(seed);
    this.now = now;
    this.objects = [];
    this.events = [];
  }

  add(kind, namespace, name, fields, age = this.dice.below(90) * DAY + HOUR) {
    const created = this.now - age;
    const uid = this.dice.uuid();
    const object = { uid, name, ...(namespace === null ? {} : { namespace }), k8s_created_at: time(created), ...fields };
    const changed = Math.max(created, this.now - this.dice.below(Math.min(age, 6 * HOUR)));
    const entry = { cluster: this.cluster.id, uid, kind, namespace, name, object, created, changed, first_seen: Math.max(created, this.now - 9 * DAY), deleted: null };
    this.objects.push(entry);
    return entry;
  }

  event(about, type, reason, message, count, ago) {
    const last = this.now - ago;
    const first = last - count * 40_000;
    const name = `${about.name}.${this.dice.text(16)}`;
    this.add("Event", about.namespace ?? "default", name, {
      type,
      reason,
      message,
      count,
      first_timestamp: time(first),
      last_timestamp: time(last),
      involved_object: { kind: about.kind, name: about.name, ...(about.namespace ? { namespace: about.namespace } : {}), uid: about.uid },
      source: { component: type === "Warning" ? "kubelet" : "deployment-controller" },
    }, this.now - first);
  }

  nodes(count, zone) {
    this.nodeNames = [];
    for (let index = 0; index < count; index += 1) {
      const isControl = index < 3;
      const name = `ip-10-2${zone}-${this.dice.below(60)}-${10 + index}.${this.cluster.region}.compute.internal`;
      this.nodeNames.push(name);
      const node = this.add("Node", null, name, {
        status: index === 7 ? "NotReady" : "Ready",
        roles: [isControl ? "control-plane" : "worker"],
        kubelet_version: this.cluster.kubernetes_version,
        container_runtime: "containerd://2.1.4",
        os_image: "Bottlerocket OS 1.44.0",
        architecture: this.dice.chance(0.4) ? "arm64" : "amd64",
        cpu_capacity: isControl ? "4" : "16",
        memory_capacity: isControl ? "16104268Ki" : "64417072Ki",
        pod_capacity: "110",
        labels: { "topology.kubernetes.io/zone": `${this.cluster.region}${"abc"[index % 3]}`, "kubernetes.io/os": "linux" },
      });
      if (index === 7) this.event(node, "Warning", "NodeNotReady", "Node is not ready: container runtime network not ready, cni config uninitialized", 3, 11 * MINUTE);
    }
  }

  pod(namespace, app, owner, state = "running", age = undefined) {
    const restarts = state === "crashing" ? 14 + this.dice.below(40) : this.dice.chance(0.08) ? 1 + this.dice.below(3) : 0;
    const container = {
      name: app,
      image: `registry.internal/${namespace}/${app}:${owner.version}`,
      state: state === "crashing" || state === "pending" ? "waiting" : "running",
      ready: state === "running",
      restart_count: restarts,
      resources: { cpu_request: "250m", cpu_limit: "1", memory_request: "256Mi", memory_limit: "512Mi" },
      ports: [{ container_port: 8080, protocol: "TCP", name: "http" }, { container_port: 9090, protocol: "TCP", name: "metrics" }],
      volume_mounts: [
        { name: "config", mount_path: "/etc/app", read_only: true },
        { name: "credentials", mount_path: "/var/run/credentials", read_only: true },
      ],
      env_var_names: ["LOG_LEVEL", "DATABASE_URL", "OTEL_EXPORTER_OTLP_ENDPOINT"],
      security_context: {},
    };
    const proxy = { name: "proxy", image: "registry.internal/mesh/proxy:1.28.1", state: container.state === "waiting" && state === "pending" ? "waiting" : "running", ready: state !== "pending", restart_count: 0, resources: {}, env_var_names: ["PROXY_CONFIG"] };
    const pod = this.add(
      "Pod",
      namespace,
      owner.podName(this.dice),
      {
        phase: state === "pending" || state === "unscheduled" ? "Pending" : "Running",
        qos_class: "Burstable",
        service_account: app,
        ...(state === "unscheduled" ? {} : { node_name: this.dice.of(this.nodeNames), host_ip: "10.20.1.4", pod_ip: `10.20.${this.dice.below(250)}.${this.dice.below(250)}` }),
        conditions: [
          { type: "PodScheduled", status: state === "unscheduled" ? "False" : "True" },
          { type: "Initialized", status: state === "pending" || state === "unscheduled" ? "False" : "True" },
          { type: "ContainersReady", status: state === "running" ? "True" : "False" },
          { type: "Ready", status: state === "running" ? "True" : "False" },
        ],
        containers: state === "unscheduled" ? [{ ...container, state: undefined, ready: false }] : this.cluster.mesh ? [container, proxy] : [container],
        volumes: [
          { name: "config", type: "configMap", source: `${app}-config` },
          { name: "credentials", type: "secret", source: `${app}-credentials` },
          { name: "tmp", type: "emptyDir" },
        ],
        labels: { app, "app.kubernetes.io/name": app, "app.kubernetes.io/part-of": namespace, "pod-template-hash": owner.hash },
        annotations: { "prometheus.io/scrape": "true", "prometheus.io/port": "9090" },
      },
      age,
    );
    if (state === "crashing") {
      this.event(pod, "Warning", "BackOff", `Back-off restarting failed container ${app} in pod ${pod.name}_${namespace}(${pod.uid})`, restarts * 4, this.dice.below(4) * MINUTE + 20_000);
      this.event(pod, "Warning", "Unhealthy", "Readiness probe failed: HTTP probe failed with statuscode: 503", 22, 3 * MINUTE);
    }
    if (state === "running" && this.cluster.eventShare > 0 && this.dice.chance(this.cluster.eventShare)) {
      const ago = this.dice.below(55) * MINUTE;
      this.event(pod, "Normal", "Pulled", `Container image "${container.image}" already present on machine`, 1, ago + 2000);
      this.event(pod, "Normal", "Started", `Started container ${app}`, 1, ago);
    }
    if (state === "unscheduled") {
      this.event(pod, "Warning", "FailedScheduling", "0/24 nodes are available: 1 node(s) were not ready, 3 node(s) had untolerated taint {node-role.kubernetes.io/control-plane: }, 20 Insufficient cpu.", 9, 2 * MINUTE);
    }
    return pod;
  }

  app(namespace, app, replicas, faults) {
    const version = `${1 + this.dice.below(4)}.${this.dice.below(30)}.${this.dice.below(9)}`;
    const hash = this.dice.text(9);
    const isStateful = /store|cache|registry|ledger/.test(app);
    const isDaemon = /collector|discovery|edge-proxy/.test(app);
    const states = Array.from({ length: isDaemon ? this.nodeNames.length : replicas }, () => "running");
    faults.forEach((fault, index) => (states[index] = fault));
    const ready = states.filter((state) => state === "running").length;
    const labels = { app, "app.kubernetes.io/name": app, "app.kubernetes.io/part-of": namespace, "app.kubernetes.io/version": version };
    const common = { labels, annotations: { "meta.helm.sh/release-name": app, "deployment.kubernetes.io/revision": String(1 + this.dice.below(60)) }, selector: { app }, image: `registry.internal/${namespace}/${app}:${version}` };
    const kind = isDaemon ? "DaemonSet" : isStateful ? "StatefulSet" : "Deployment";
    const counts = {
      Deployment: { replicas, ready_replicas: ready, available_replicas: ready, updated_replicas: replicas, strategy: "RollingUpdate" },
      StatefulSet: { replicas, ready_replicas: ready, current_replicas: replicas, update_strategy: "RollingUpdate", service_name: app },
      DaemonSet: { desired_number_scheduled: states.length, current_number_scheduled: states.length, number_ready: ready, number_available: ready, update_strategy: "RollingUpdate" },
    }[kind];
    const owner = this.add(kind, namespace, app, { ...counts, ...common });
    let ordinal = 0;
    const podName = { Deployment: (d) => `${app}-${hash}-${d.text(5)}`, StatefulSet: () => `${app}-${ordinal++}`, DaemonSet: (d) => `${app}-${d.text(5)}` }[kind];
    for (const state of states) this.pod(namespace, app, { version, hash, podName }, state, state === "running" ? undefined : 40 * MINUTE);
    this.add("Service", namespace, app, { service_type: isDaemon ? "LoadBalancer" : "ClusterIP", cluster_ip: `10.96.${this.dice.below(250)}.${this.dice.below(250)}`, ports: [{ name: "http", protocol: "TCP", port: 80, targetPort: "8080" }], selector: { app } });
    this.add("ConfigMap", namespace, `${app}-config`, { data_keys: ["app.yaml", "limits.yaml"], immutable: false, labels });
    this.add("Secret", namespace, `${app}-credentials`, { type: "Opaque", data_keys: ["password", "tls.crt", "tls.key", "username"], immutable: false });
    this.add("ServiceAccount", namespace, app, { automount_service_account_token: false });
    if (isStateful) for (let index = 0; index < replicas; index += 1) this.add("PersistentVolumeClaim", namespace, `data-${app}-${index}`, { storage_class_name: "gp3", access_modes: ["ReadWriteOnce"], storage_request: "100Gi", volume_name: `pvc-${this.dice.uuid()}`, phase: "Bound", volume_mode: "Filesystem" });
    if (this.dice.chance(0.5)) this.add("NetworkPolicy", namespace, `${app}-ingress`, { pod_selector: { app }, policy_types: ["Ingress"], ingress_rules: 2, egress_rules: 0 });
    if (/web|login|gateway|frontend|api/.test(app)) this.add("Ingress", namespace, app, { ingress_class_name: "edge", rules: [{ host: `${app}.${this.cluster.name}.example.com`, paths: [{ path: "/", path_type: "Prefix", service_name: app, service_port: 80 }] }], tls: [{ hosts: [`${app}.${this.cluster.name}.example.com`], secret_name: `${app}-credentials` }], load_balancer_ips: ["203.0.113.17"] });
    return owner;
  }

  namespace(name, apps, share) {
    this.add("Namespace", null, name, { phase: name === "sandbox-7" ? "Terminating" : "Active", labels: { "kubernetes.io/metadata.name": name, "pod-security.kubernetes.io/enforce": "restricted" } });
    this.add("ConfigMap", name, "kube-root-ca.crt", { data_keys: ["ca.crt"], immutable: false });
    this.add("ServiceAccount", name, "default", {});
    for (const app of apps) {
      const faults = this.cluster.faults[`${name}/${app}`] ?? [];
      this.app(name, app, Math.max(2, Math.round((3 + this.dice.below(9)) * share)), faults);
    }
    for (const role of ["viewer", "deployer"]) {
      this.add("Role", name, role, { is_cluster: false, rule_count: 3, resources: ["configmaps", "deployments", "pods", "services"] });
      this.add("RoleBinding", name, role, { is_cluster: false, role_ref: { kind: "Role", name: role }, subjects: [{ kind: "Group", name: `team-${name}` }, { kind: "ServiceAccount", name: "default", namespace: name }] });
    }
    this.jobs(name);
  }

  jobs(namespace) {
    const name = `${namespace}-nightly-report`;
    this.add("CronJob", namespace, name, { schedule: "15 3 * * *", suspend: false, concurrency_policy: "Forbid", last_schedule_time: time(this.now - 7 * HOUR), active_jobs: 0 });
    for (let run = 0; run < 3; run += 1) {
      const isFailed = namespace === "data-platform" && run === 0;
      const job = this.add("Job", namespace, `${name}-${29380215 - run * 1440}`, { completions: 1, parallelism: 1, succeeded: isFailed ? 0 : 1, failed: isFailed ? 6 : 0, active: 0, start_time: time(this.now - 7 * HOUR - run * DAY), ...(isFailed ? {} : { completion_time: time(this.now - 7 * HOUR - run * DAY + 4 * MINUTE) }), owner_ref: name }, 7 * HOUR + run * DAY);
      if (isFailed) this.event(job, "Warning", "BackoffLimitExceeded", "Job has reached the specified backoff limit", 1, 7 * HOUR - 9 * MINUTE);
    }
  }

  roles() {
    for (const name of ["cluster-admin", "admin", "edit", "view", "system:node", "system:discovery", "trustplane-manager", "metrics-reader", "edge-proxy"]) {
      this.add("ClusterRole", null, name, { is_cluster: true, rule_count: 1 + this.dice.below(12), resources: ["nodes", "pods", "secrets"] });
      this.add("ClusterRoleBinding", null, name, { is_cluster: true, role_ref: { kind: "ClusterRole", name }, subjects: [{ kind: "ServiceAccount", name, namespace: "kube-system" }] });
    }
  }
}

/** Three clusters with their objects; `rows` adds that many pods in a cluster of their own. */
export function fleet(now, rows = 0) {
  const clusters = [
    {
      id: "c-7f3a91", name: "prod-eu-west", region: "eu-west-1", kubernetes_version: "v1.36.2", agent_version: "0.1.0", uid: "0c9a1f5e-77a1-4c0e-9d4b-4f0c2f6f3a11", state: "connected", mesh: true,
      contact: 8_000, snapshot: 9 * DAY, since: 9 * DAY, share: 1.9, eventShare: 0.2, nodes: 24, seed: 7,
      faults: { "payments/fraud-scorer": ["crashing", "crashing"], "storefront/image-resizer": ["pending"], "ml-serving/ranker": ["unscheduled", "unscheduled", "unscheduled"], "logistics/label-printer": ["crashing"] },
    },
    {
      id: "c-b20c44", name: "staging", region: "eu-central-1", kubernetes_version: "v1.35.6", agent_version: "0.1.0", uid: "5d1a7b7c-1f3e-4b8e-8f43-6f1f0de3a902", state: "stale", mesh: false,
      contact: 4 * MINUTE + 20_000, snapshot: 2 * DAY, since: 2 * MINUTE, share: 0.9, eventShare: 0.08, nodes: 6, seed: 21, faults: { "identity/login": ["crashing", "crashing"] },
    },
    {
      id: "c-e91d07", name: "edge-oslo", region: "eu-north-1", kubernetes_version: null, agent_version: null, uid: null, state: "pending", mesh: false,
      contact: null, snapshot: null, since: 3 * MINUTE, share: 0, eventShare: 0, nodes: 0, seed: 3, faults: {},
    },
  ];
  const objects = [];
  for (const cluster of clusters) {
    if (cluster.nodes === 0) continue;
    // Nothing is known of a silent cluster after its last contact.
    const builder = new Builder(cluster, cluster.seed, cluster.state === "connected" ? now : now - cluster.contact);
    builder.nodes(cluster.nodes, cluster.nodes);
    builder.roles();
    for (const [name, apps] of Object.entries(APPS)) builder.namespace(name, apps, cluster.share);
    for (const name of ["default", "kube-system", "sandbox-7"]) builder.namespace(name, [], cluster.share);
    objects.push(...builder.objects);
  }
  if (rows > 0) {
    const load = { ...clusters[0], id: "c-load", name: "load", mesh: false, eventShare: 0, faults: {}, uid: "f5d7c1de-0000-4000-8000-000000000001" };
    clusters.push(load);
    const builder = new Builder(load, 99, now);
    builder.nodes(8, 9);
    for (let index = 0; index < rows; index += 1) {
      const number = String(index).padStart(6, "0");
      builder.pod(`load-${index % 40}`, "worker", { version: "1.0.0", hash: "abc", podName: () => `worker-${number}` });
    }
    objects.push(...builder.objects);
  }
  return { clusters, objects };
}
