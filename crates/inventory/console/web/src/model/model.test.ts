import { describe, expect, it } from "vitest";
import type { Cluster } from "../api/types";
import { age, ago, clock, silence, span } from "./age";
import { conditionClass } from "./conditions";
import { factsOfKind, label, NAMED_FACTS, orderFacts, short, summaryLine } from "./facts";
import { CATEGORIES, KINDS, counted, plural, problemCount, troubles } from "./kinds";
import { STATUS_CLASSES, isSilent, isStatusClass, stateClass } from "./status";
import { NO_FILTERS, clusterHref, namespaceHref, objectHref, readFilters, readRoute, resourcesHref, writeFilters } from "./urls";
import { readViews, toggleView, viewName } from "./views";

const NOW = Date.parse("2026-11-18T10:46:00Z");
const before = (seconds: number) => new Date(NOW - seconds * 1000).toISOString();

function cluster(part: Partial<Cluster>): Cluster {
  return {
    id: "c1",
    name: "prod",
    uid: null,
    state: "connected",
    state_since: before(600),
    last_contact: before(240),
    last_snapshot: null,
    heartbeat_seconds: 300,
    kubernetes_version: null,
    agent_version: null,
    objects: 0,
    counts: {},
    problems: {},
    alerts: [],
    activity: [],
    ...part,
  };
}

describe("age", () => {
  it.each([
    [-5_000, "0 s"],
    [900, "0 s"],
    [59_999, "59 s"],
    [60_000, "1 min"],
    [3_599_000, "59 min"],
    [3_600_000, "1 h"],
    [47 * 3_600_000, "47 h"],
    [48 * 3_600_000, "2 d"],
    [400 * 86_400_000, "400 d"],
    [800 * 86_400_000, "2 y"],
  ])("span of %d ms is %s", (length, words) => expect(span(length)).toBe(words));

  it("says nothing about a time that is unknown or unset", () => {
    expect(age(null, NOW)).toBe("–");
    expect(age("0001-01-01T00:00:00Z", NOW)).toBe("–");
    expect(age("yesterday", NOW)).toBe("–");
    expect(ago(null, NOW)).toBe("never");
  });

  it("speaks of the last seconds as now", () => {
    expect(ago(before(2), NOW)).toBe("just now");
    expect(ago(before(240), NOW)).toBe("4 min ago");
  });

  it("names the day when it is not today", () => {
    expect(clock(before(60), NOW)).toMatch(/^\d\d:\d\d$/);
    expect(clock(before(3 * 86_400), NOW)).toMatch(/^15 Nov \d\d:\d\d$/);
    expect(clock("2024-02-03T12:00:00Z", NOW)).toMatch(/^3 Feb 2024 \d\d:\d\d$/);
  });

  it("explains why data is old", () => {
    expect(silence(cluster({ state: "connected" }), NOW)).toBeNull();
    expect(silence(cluster({ state: "stale" }), NOW)).toMatch(
      /^Data is 4 min old: the agent has not reached the hub since \d\d:\d\d\.$/,
    );
    expect(silence(cluster({ state: "pending", last_contact: null }), NOW)).toContain("not reached the hub yet");
    expect(silence(cluster({ state: "disconnected", last_contact: null }), NOW)).toContain("since the cluster was added");
  });
});

describe("urls", () => {
  it.each([
    ["/", { page: "fleet" }],
    ["/resources", { page: "resources" }],
    ["/resources/", { page: "resources" }],
    ["/clusters/c1", { page: "cluster", cluster: "c1" }],
    ["/clusters/c1/namespaces/kube-system", { page: "namespace", cluster: "c1", namespace: "kube-system" }],
    ["/clusters/c1/objects/u%2F1", { page: "object", cluster: "c1", uid: "u/1" }],
    ["/clusters", { page: "unknown" }],
    ["/clusters/c1/pods/x", { page: "unknown" }],
    ["/clusters/c1/objects", { page: "unknown" }],
    ["/clusters/%E0%A4%A", { page: "cluster", cluster: "%E0%A4%A" }],
    ["/nothing", { page: "unknown" }],
  ])("%s is a page", (path, route) => expect(readRoute(path)).toEqual(route));

  it("writes what it reads", () => {
    const filters = {
      cluster: "c1",
      kind: "Pod",
      namespace: "pay ments",
      q: "api&x",
      status: "error" as const,
      sort: "changed" as const,
      descending: true,
      columns: ["name", "node"],
    };
    const text = writeFilters(filters);
    expect(readFilters(new URLSearchParams(text))).toEqual(filters);
    expect(text).toContain("sort=-changed");
    expect(text).toContain("columns=name,node");
  });

  it("leaves out filters that say nothing", () => {
    expect(writeFilters(NO_FILTERS)).toBe("");
    expect(resourcesHref({ kind: "Pod" })).toBe("/resources?kind=Pod");
    expect(readFilters(new URLSearchParams("status=odd&sort=size&kind="))).toEqual(NO_FILTERS);
  });

  it("escapes the parts of a path", () => {
    expect(clusterHref("a/b", "rbac")).toBe("/clusters/a%2Fb?tab=rbac");
    expect(namespaceHref("c", "n")).toBe("/clusters/c/namespaces/n");
    expect(objectHref({ cluster: "c", uid: "x y" })).toBe("/clusters/c/objects/x%20y");
  });
});

describe("views", () => {
  const pods = { ...NO_FILTERS, kind: "Pod", namespace: "payments", status: "error" as const };

  it("names filters by what they say", () => {
    expect(viewName(NO_FILTERS, null)).toBe("Objects");
    expect(viewName(pods, "prod")).toBe("Pods · prod · payments · failing");
    expect(viewName({ ...NO_FILTERS, q: "api", sort: "changed", descending: true }, null)).toBe("Objects · “api” · by change");
  });

  it("keeps a view and forgets it", () => {
    const view = { name: "mine", search: writeFilters(pods) };
    const kept = toggleView([], view);
    expect(readViews(JSON.stringify(kept))).toEqual([view]);
    expect(toggleView(kept, view)).toEqual([]);
  });

  it("leaves out what is not a view", () => {
    for (const text of [null, "", "{", "3", "[null, 1, {}]", '[{"name":"x","search":"?size=3"}]']) {
      expect(readViews(text)).toEqual([]);
    }
  });
});

describe("status", () => {
  it("knows its classes", () => {
    expect(STATUS_CLASSES.every(isStatusClass)).toBe(true);
    expect(isStatusClass("toString")).toBe(false);
    expect(isStatusClass(null)).toBe(false);
  });

  it("gives each state of a cluster a class of its own", () => {
    const states = ["pending", "connected", "stale", "disconnected"] as const;
    expect(new Set(states.map(stateClass)).size).toBe(4);
    expect(states.filter((state) => isSilent({ state }))).toEqual(["stale", "disconnected"]);
  });
});

describe("kinds", () => {
  it("lists the 20 kinds once each", () => {
    expect(KINDS).toHaveLength(20);
    expect(new Set(KINDS).size).toBe(20);
    expect(CATEGORIES).toHaveLength(6);
  });

  it("takes a kind that is named like a part of every object for an unknown kind", () => {
    expect(plural("constructor")).toBe("constructors");
    expect(counted("constructor", 2)).toBe("2 constructors");
    expect(troubles({ toString: 1 })).toBe("1 to string not ready");
    expect(factsOfKind("constructor")).toEqual([]);
    expect(label("constructor")).toBe("Constructor");
  });

  it("counts in words", () => {
    expect(plural("NetworkPolicy")).toBe("NetworkPolicies");
    expect(counted("Pod", 1)).toBe("1 pod");
    expect(counted("StatefulSet", 12)).toBe("12 stateful sets");
    expect(counted("NetworkPolicy", 1200)).toBe("1,200 network policies");
    expect(troubles({ Node: 1, Pod: 7, Job: 0, Event: 90 })).toBe("7 pods, 1 node not ready");
    expect(troubles({ Job: 1, Pod: 7, Node: 1 })).toBe("7 pods, 1 node not ready; 1 job failed");
    expect(troubles({})).toBe("");
    expect(problemCount({ Node: 1, Pod: 7, Event: 90 })).toBe(8);
  });
});

describe("facts", () => {
  it("names fields for people", () => {
    expect(label("cluster_ip")).toBe("Cluster IP");
    expect(label("targetPort")).toBe("Target port");
    expect(label("node")).toBe("Node");
  });

  it("shortens images and nodes", () => {
    expect(short("image", "resummaryLinery.internal/payments/ledger:1.2@sha256:ab")).toBe("ledger:1.2@sha256:ab");
    expect(short("image", "nginx")).toBe("nginx");
    expect(short("node", "ip-10-0-0-1.eu.internal")).toBe("ip-10-0-0-1");
    expect(short("reason", "a.b/c")).toBe("a.b/c");
    expect(short("memory", "64417072Ki")).toBe("61 GiB");
    expect(short("memory", "64Gi")).toBe("64Gi");
  });

  it("orders and aligns only facts that a kind has", () => {
    const known = new Set([...KINDS.flatMap(factsOfKind), "count"]);
    expect(NAMED_FACTS.filter((fact) => !known.has(fact))).toEqual([]);
  });

  it("puts the most useful fact first", () => {
    expect(orderFacts(["zone", "image", "ready", "image"])).toEqual(["ready", "image", "zone"]);
  });

  it("says what is wrong before what it is", () => {
    const status = { class: "error" as const, word: "Failed" };
    expect(summaryLine({ status, facts: { image: "nginx", restarts: "3", reason: "OOMKilled", ready: "0/1" } })).toBe(
      "OOMKilled · 0/1 ready · 3 restarts",
    );
    const ok = { class: "ok" as const, word: "Running" };
    expect(summaryLine({ status: ok, facts: { restarts: "0", ready: "1/1", node: "n1.eu.internal" } })).toBe("1/1 ready · n1");
    expect(summaryLine({ status: ok, facts: { rules: "8", ports: "80", secrets: "0" } })).toBe("80 · 8 rules");
    expect(summaryLine({ status: ok, facts: { cpu: "16", memory: "64417072Ki" } })).toBe("16 CPU · 61 GiB");
  });
});

describe("conditions", () => {
  it.each([
    ["Ready", "True", "Running", "ok"],
    ["Ready", "False", "Running", "warning"],
    ["Ready", "False", "Succeeded", "none"],
    ["ContainersReady", "False", "Failed", "none"],
    ["Ready", "Unknown", "Running", "warning"],
    ["DisruptionTarget", "True", "Running", "warning"],
    ["DisruptionTarget", "True", "Failed", "warning"],
    ["MemoryPressure", "False", undefined, "none"],
    ["PodResizeInProgress", "True", "Running", "progress"],
  ])("%s %s of a pod that is %s: %s", (type, status, phase, expected) => expect(conditionClass(type, status, phase)).toBe(expected));
});
