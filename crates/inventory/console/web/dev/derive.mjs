// Status, facts and relations of an object, derived from its projection as the hub derives them.

const none = { class: "none", word: "" };
const status = (cls, word) => ({ class: cls, word });

export function statusOf({ kind, object }) {
  switch (kind) {
    case "Pod": {
      if (object.phase === "Pending") {
        const isUnscheduled = object.conditions?.some((one) => one.type === "PodScheduled" && one.status === "False");
        return isUnscheduled ? status("warning", "Unscheduled") : status("progress", "Pending");
      }
      const containers = object.containers ?? [];
      if (containers.some((one) => one.state === "waiting" && one.restart_count > 0)) return status("error", "Crashing");
      if (containers.some((one) => one.state === "waiting")) return status("progress", "Starting");
      return containers.every((one) => one.ready) ? status("ok", "Running") : status("warning", "Not ready");
    }
    case "Deployment":
    case "StatefulSet":
      return replicas(object.replicas, object.ready_replicas);
    case "DaemonSet":
      return replicas(object.desired_number_scheduled, object.number_ready);
    case "Node":
      return object.status === "Ready" ? status("ok", "Ready") : status("error", "Not ready");
    case "Namespace":
      return object.phase === "Active" ? status("ok", "Active") : status("progress", object.phase);
    case "Job":
      return object.succeeded > 0 ? status("ok", "Complete") : object.failed > 0 ? status("error", "Failed") : status("progress", "Running");
    case "CronJob":
      return status("ok", "Scheduled");
    case "PersistentVolumeClaim":
      return object.phase === "Bound" ? status("ok", "Bound") : status("progress", object.phase);
    case "Event":
      return object.type === "Warning" ? status("warning", "Warning") : status("none", object.type);
    case "Service":
      return status("none", object.service_type);
    default:
      return none;
  }
}

function replicas(desired, ready) {
  if (desired === 0) return status("none", "Scaled to 0");
  if (ready >= desired) return status("ok", "Ready");
  return ready === 0 ? status("error", "Not ready") : status("warning", "Partly ready");
}

export function factsOf({ kind, object }) {
  const facts = {};
  const set = (key, value) => {
    if (value !== undefined && value !== null && value !== "") facts[key] = String(value);
  };
  switch (kind) {
    case "Pod": {
      const containers = object.containers ?? [];
      set("ready", `${containers.filter((one) => one.ready).length}/${containers.length}`);
      set("restarts", containers.reduce((total, one) => total + one.restart_count, 0));
      set("node", object.node_name);
      set("image", containers[0]?.image);
      set("ip", object.pod_ip);
      break;
    }
    case "Deployment":
    case "StatefulSet":
      set("ready", `${object.ready_replicas}/${object.replicas}`);
      set("image", object.image);
      set("strategy", object.strategy);
      set("service", object.service_name);
      break;
    case "DaemonSet":
      set("ready", `${object.number_ready}/${object.desired_number_scheduled}`);
      set("image", object.image);
      break;
    case "Node":
      set("roles", object.roles?.join(", "));
      set("version", object.kubelet_version);
      set("cpu", object.cpu_capacity);
      set("memory", object.memory_capacity);
      set("pods", object.pod_capacity);
      break;
    case "Service":
      set("type", object.service_type);
      set("cluster_ip", object.cluster_ip);
      set("ports", object.ports?.map((port) => `${port.port}/${port.protocol}`).join(", "));
      break;
    case "CronJob":
      set("schedule", object.schedule);
      set("active", object.active_jobs);
      set("last_schedule", object.last_schedule_time);
      break;
    case "Job":
      set("completions", `${object.succeeded}/${object.completions}`);
      set("owner", object.owner_ref);
      break;
    case "Ingress":
      set("hosts", object.rules?.map((rule) => rule.host).join(", "));
      set("class", object.ingress_class_name);
      break;
    case "PersistentVolumeClaim":
      set("size", object.storage_request);
      set("storage_class", object.storage_class_name);
      set("volume", object.volume_name);
      break;
    case "ConfigMap":
    case "Secret":
      set("type", object.type);
      set("keys", object.data_keys?.length);
      break;
    case "Role":
    case "ClusterRole":
      set("rules", object.rule_count);
      set("resources", object.resources?.join(", "));
      break;
    case "RoleBinding":
    case "ClusterRoleBinding":
      set("role", `${object.role_ref.kind}/${object.role_ref.name}`);
      set("subjects", object.subjects?.map((subject) => `${subject.kind}/${subject.name}`).join(", "));
      break;
    case "Event":
      set("reason", object.reason);
      set("message", object.message);
      set("type", object.type);
      set("object", `${object.involved_object.kind}/${object.involved_object.name}`);
      break;
  }
  return facts;
}

/** Groups of related objects among the live objects of the same cluster. */
export function relatedTo(entry, live) {
  const here = live.filter((other) => other.cluster === entry.cluster && other.uid !== entry.uid);
  const inNamespace = here.filter((other) => other.namespace === entry.namespace);
  const selects = (selector, pod) => selector && Object.entries(selector).every(([key, value]) => pod.object.labels?.[key] === value);
  const groups = [];
  const add = (relation, items) => items.length > 0 && groups.push({ relation, items: items.slice(0, 100) });
  if (entry.kind === "Pod") {
    add("Belongs to", inNamespace.filter((other) => ["Deployment", "StatefulSet", "DaemonSet"].includes(other.kind) && selects(other.object.selector, entry)));
    add("Runs on", here.filter((other) => other.kind === "Node" && other.name === entry.object.node_name));
    add("Served by", inNamespace.filter((other) => other.kind === "Service" && selects(other.object.selector, entry)));
    const sources = (entry.object.volumes ?? []).map((volume) => volume.source);
    add("Mounts", inNamespace.filter((other) => ["ConfigMap", "Secret", "PersistentVolumeClaim"].includes(other.kind) && sources.includes(other.name)));
    add("Acts as", inNamespace.filter((other) => other.kind === "ServiceAccount" && other.name === entry.object.service_account));
  }
  if (entry.object.selector && entry.kind !== "Pod") add("Pods", inNamespace.filter((other) => other.kind === "Pod" && selects(entry.object.selector, other)));
  if (entry.kind === "Node") add("Pods", here.filter((other) => other.kind === "Pod" && other.object.node_name === entry.name));
  if (entry.kind === "CronJob") add("Jobs", inNamespace.filter((other) => other.kind === "Job" && other.object.owner_ref === entry.name));
  if (entry.kind === "Secret" || entry.kind === "ConfigMap") {
    add("Mounted by", inNamespace.filter((other) => other.kind === "Pod" && other.object.volumes?.some((volume) => volume.source === entry.name)));
  }
  if (entry.kind === "Ingress") {
    const names = entry.object.rules?.flatMap((rule) => rule.paths.map((path) => path.service_name)) ?? [];
    add("Routes to", inNamespace.filter((other) => other.kind === "Service" && names.includes(other.name)));
  }
  return groups;
}
