import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import { Gathered } from "./live";
import { FIRST_PAGE, NEXT_PAGE, PagedList, type Page } from "./pagedList";
import { touches, type Changes } from "./queries";

/** A hub with rows by name, asked by the last name of the page before. */
class Store {
  names: string[] = [];
  asked: [cursor: string | null, limit: number][] = [];
  fail = false;

  fetch = async (cursor: string | null, limit: number): Promise<Page<string>> => {
    this.asked.push([cursor, limit]);
    if (this.fail) throw new Error("unreachable");
    const after = this.names.filter((name) => cursor === null || name > cursor);
    const items = after.slice(0, limit);
    return { items, next: after.length > limit ? (items.at(-1) ?? null) : null, total: this.names.length };
  };
}

const name = (index: number) => `pod-${String(index).padStart(6, "0")}`;

async function settled(): Promise<void> {
  for (let turn = 0; turn < 200; turn += 1) await Promise.resolve();
}

function stored(count: number): [Store, PagedList<string>] {
  const store = new Store();
  store.names = Array.from({ length: count }, (_, index) => name(index));
  const list = new PagedList(store.fetch);
  list.subscribe(() => {});
  return [store, list];
}

describe("PagedList", () => {
  it("loads a short page first and more only when it comes into view", async () => {
    const [store, list] = stored(5000);
    list.want(0, 30);
    await settled();
    expect(store.asked).toEqual([[null, FIRST_PAGE]]);
    expect(list.view().total).toBe(5000);
    list.want(90, 130);
    await settled();
    expect(store.asked.slice(1)).toEqual([[name(99), NEXT_PAGE]]);
    expect(list.view().row(599)).toBe(name(599));
    expect(list.view().row(600)).toBeUndefined();
  });

  it("reaches the end of a long list", async () => {
    const [store, list] = stored(5000);
    list.want(4970, 5000);
    await settled();
    expect(list.view().row(4999)).toBe(name(4999));
    expect(store.asked).toHaveLength(11);
  });

  it("asks again only for what is in view after a change", async () => {
    const [store, list] = stored(5000);
    list.want(2000, 2030);
    await settled();
    store.asked = [];
    store.names[2010] = `${name(2010)}-new`;
    list.invalidate();
    await settled();
    expect(store.asked).toEqual([[name(1599), NEXT_PAGE]]);
    expect(list.view().row(2010)).toBe(`${name(2010)}-new`);
  });

  it("shows every row once after rows came and went", async () => {
    const [store, list] = stored(1200);
    list.want(0, 1200);
    await settled();
    store.names.splice(50, 2);
    store.names.splice(700, 0, `${name(701)}-a`, `${name(701)}-b`, `${name(701)}-c`);
    list.invalidate();
    await settled();
    expect(list.view().total).toBe(1201);
    const shown = Array.from({ length: 1201 }, (_, index) => list.view().row(index));
    expect(shown).toEqual(store.names);
  });

  it("grows when a row comes to an empty list and empties when it goes", async () => {
    const [store, list] = stored(0);
    await settled();
    expect(list.view().total).toBe(0);
    store.names = ["pod"];
    list.invalidate();
    await settled();
    expect([list.view().total, list.view().row(0)]).toEqual([1, "pod"]);
    store.names = [];
    list.invalidate();
    await settled();
    expect([list.view().total, list.view().row(0)]).toEqual([0, undefined]);
  });

  it("keeps its rows when the hub fails and loads again on retry", async () => {
    const [store, list] = stored(50);
    await settled();
    store.fail = true;
    list.invalidate();
    await settled();
    expect(list.view().error?.message).toBe("unreachable");
    expect(list.view().row(0)).toBe(name(0));
    store.fail = false;
    store.names = ["other"];
    list.retry();
    await settled();
    expect([list.view().error, list.view().total, list.view().row(0)]).toEqual([null, 1, "other"]);
  });

  it("asks again when a change arrives during a request", async () => {
    const [store, list] = stored(10);
    list.invalidate();
    await settled();
    expect(store.asked).toHaveLength(2);
  });
});

describe("Gathered", () => {
  beforeEach(() => void vi.useFakeTimers());
  afterEach(() => void vi.useRealTimers());

  it("passes the first change on at once and the next together", () => {
    const passed: Map<string, Set<string> | null>[] = [];
    const gathered = new Gathered((changes) => passed.push(changes));
    gathered.add('{"cluster":"a","kinds":["Pod"]}');
    expect(passed).toHaveLength(1);
    gathered.add('{"cluster":"a","kinds":["Pod","Node"]}');
    gathered.add('{"cluster":"a","kinds":["Job"]}');
    gathered.add('{"cluster":"b"}');
    gathered.add('{"cluster":"b","kinds":["Job"]}');
    expect(passed).toHaveLength(1);
    vi.advanceTimersByTime(1000);
    expect(passed[1]).toEqual(
      new Map<string, Set<string> | null>([
        ["a", new Set(["Pod", "Node", "Job"])],
        ["b", null],
      ]),
    );
    vi.advanceTimersByTime(10_000);
    expect(passed).toHaveLength(2);
    gathered.add('{"cluster":"a","kinds":["Pod"]}');
    expect(passed).toHaveLength(3);
  });

  it("leaves out what it cannot read", () => {
    const pass = vi.fn();
    const gathered = new Gathered(pass);
    for (const text of ["", "{", "null", "[]", '{"cluster":3}']) gathered.add(text);
    expect(pass).not.toHaveBeenCalled();
  });
});

describe("touches", () => {
  const changes: Changes = new Map([["a", new Set(["Pod"])]]);
  it.each([
    [["clusters"], true],
    [["cluster", "a"], true],
    [["cluster", "b"], false],
    [["counts", "a", null], true],
    [["objects", {}, 10], true],
    [["objects", { cluster: "b" }, 10], false],
    [["objects", { cluster: "a", kind: "Pod" }, 10], true],
    [["objects", { kind: "Node" }, 10], false],
    [["object", "a", "u"], true],
    [["related", "b", "u"], false],
    [["events", { cluster: "a" }, 10], false],
  ])("%j: %s", (queryKey, expected) => expect(touches({ queryKey }, changes)).toBe(expected));

  it("takes a change without kinds for a change of everything", () => {
    expect(touches({ queryKey: ["events", {}, 10] }, new Map([["a", null]]))).toBe(true);
  });
});
