import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import { environmentManager, QueryObserver } from "@tanstack/react-query";
import { ChangeBatcher, listen, type LiveListener, type Visibility } from "./live";
import { FIRST_PAGE, NEXT_PAGE, PagedList, type Page } from "./pagedList";
import { createQueryClient, POLL, queries, refresh, touches, type Changes } from "./queries";

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

  it("says why a later page is missing and loads it on retry", async () => {
    const [store, list] = stored(1000);
    list.want(0, 30);
    await settled();
    store.fail = true;
    list.want(90, 130);
    await settled();
    expect([list.view().total, list.view().error?.message, list.view().row(110)]).toEqual([1000, "unreachable", undefined]);
    store.fail = false;
    list.retry();
    await settled();
    expect([list.view().error, list.view().row(110)]).toEqual([null, name(110)]);
  });

  it("tries again when a person comes back to a list that failed", async () => {
    const store = new Store();
    store.names = ["pod"];
    store.fail = true;
    const list = new PagedList(store.fetch);
    const leave = list.subscribe(() => {});
    await settled();
    expect(list.view().error).not.toBeNull();
    leave();
    store.fail = false;
    list.subscribe(() => {});
    await settled();
    expect([list.view().error, list.view().row(0)]).toEqual([null, "pod"]);
  });

  it("asks again when a change arrives during a request", async () => {
    const [store, list] = stored(10);
    list.invalidate();
    await settled();
    expect(store.asked).toHaveLength(2);
  });
});

describe("ChangeBatcher", () => {
  beforeEach(() => void vi.useFakeTimers());
  afterEach(() => void vi.useRealTimers());

  it("passes the first change on at once and the next together", () => {
    const passed: Map<string, Set<string> | null>[] = [];
    const batcher = new ChangeBatcher((changes) => passed.push(changes));
    batcher.add('{"cluster":"a","kinds":["Pod"]}');
    expect(passed).toHaveLength(1);
    batcher.add('{"cluster":"a","kinds":["Pod","Node"]}');
    batcher.add('{"cluster":"a","kinds":["Job"]}');
    batcher.add('{"cluster":"b"}');
    batcher.add('{"cluster":"b","kinds":["Job"]}');
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
    batcher.add('{"cluster":"a","kinds":["Pod"]}');
    expect(passed).toHaveLength(3);
  });

  it("leaves out what it cannot read", () => {
    const pass = vi.fn();
    const batcher = new ChangeBatcher(pass);
    for (const text of ["", "{", "null", "[]", '{"cluster":3}']) batcher.add(text);
    expect(pass).not.toHaveBeenCalled();
  });
});

/** A stream that a test opens and breaks. */
class FakeStream {
  static readonly CLOSED = 2;
  static all: FakeStream[] = [];
  readyState = 0;
  onopen: (() => void) | null = null;
  onerror: (() => void) | null = null;

  constructor(readonly path: string) {
    FakeStream.all.push(this);
  }

  addEventListener(): void {}

  close(): void {
    this.readyState = FakeStream.CLOSED;
  }

  static get open(): FakeStream[] {
    return FakeStream.all.filter((stream) => stream.readyState !== FakeStream.CLOSED);
  }
}

/** A page that a test hides and shows. */
class FakePage extends EventTarget {
  hidden = false;

  show(isVisible: boolean): void {
    this.hidden = !isVisible;
    this.dispatchEvent(new Event("visibilitychange"));
  }
}

describe("listen", () => {
  beforeEach(() => {
    vi.useFakeTimers();
    vi.stubGlobal("EventSource", FakeStream);
    FakeStream.all = [];
  });
  afterEach(() => {
    vi.useRealTimers();
    vi.unstubAllGlobals();
  });

  function listening(page = new FakePage()) {
    const listener = { onChanges: vi.fn(), onReturn: vi.fn(), onState: vi.fn() } satisfies LiveListener;
    const stop = listen("/live", listener, page as unknown as Visibility);
    return { page, listener, stop };
  }

  it("asks for everything at every open, the first included", () => {
    const { listener } = listening();
    expect(listener.onReturn).not.toHaveBeenCalled();
    FakeStream.all[0]?.onopen?.();
    expect(listener.onReturn).toHaveBeenCalledTimes(1);
    FakeStream.all[0]?.onerror?.();
    FakeStream.all[0]?.onopen?.();
    expect(listener.onReturn).toHaveBeenCalledTimes(2);
  });

  it("has no stream while the page is hidden", () => {
    const { page, listener } = listening();
    FakeStream.all[0]?.onopen?.();
    page.show(false);
    expect(FakeStream.open).toHaveLength(0);
    page.show(true);
    expect(FakeStream.open).toHaveLength(1);
    FakeStream.open[0]?.onopen?.();
    expect(listener.onReturn).toHaveBeenCalledTimes(2);
    expect(listener.onState).not.toHaveBeenCalledWith("offline", expect.anything());
  });

  it("opens nothing for a page that starts hidden", () => {
    const page = new FakePage();
    page.hidden = true;
    listening(page);
    expect(FakeStream.all).toHaveLength(0);
    page.show(true);
    expect(FakeStream.open).toHaveLength(1);
  });

  it("opens a closed stream again, but not for a hidden page", () => {
    const { page, listener } = listening();
    const [first] = FakeStream.all;
    first?.close();
    first?.onerror?.();
    expect(listener.onState).toHaveBeenLastCalledWith("offline", expect.anything());
    page.show(false);
    vi.advanceTimersByTime(60_000);
    expect(FakeStream.all).toHaveLength(1);
    page.show(true);
    expect(FakeStream.open).toHaveLength(1);
  });

  it("closes the stream when it stops", () => {
    const { page, stop } = listening();
    stop();
    page.show(true);
    expect(FakeStream.open).toHaveLength(0);
  });
});

describe("queries", () => {
  const answers: (() => void)[] = [];
  const fetched = vi.fn();

  beforeEach(() => {
    vi.useFakeTimers();
    // Without a window React Query takes the process for a server, which polls nothing.
    environmentManager.setIsServer(() => false);
    answers.length = 0;
    fetched.mockReset();
    vi.stubGlobal("fetch", (path: string) => {
      fetched(path);
      return new Promise((resolve) => answers.push(() => resolve(Response.json({ items: [] }))));
    });
  });
  afterEach(() => {
    vi.useRealTimers();
    vi.unstubAllGlobals();
  });

  async function answer(): Promise<void> {
    for (const each of answers.splice(0)) each();
    await vi.advanceTimersByTimeAsync(1);
  }

  it.each([
    ["the clusters", queries.clusters()],
    ["a cluster", queries.cluster("a")],
  ])("ask for %s again, so that a quiet cluster does not seem old", async (_, options) => {
    const client = createQueryClient();
    const stop = new QueryObserver(client, options as ReturnType<typeof queries.clusters>).subscribe(() => {});
    await answer();
    expect(fetched).toHaveBeenCalledTimes(1);
    await vi.advanceTimersByTimeAsync(POLL);
    expect(fetched).toHaveBeenCalledTimes(2);
    stop();
    client.clear();
  });

  it("are asked again when the stream opens during the first request", async () => {
    const client = createQueryClient();
    const stop = new QueryObserver(client, queries.namespaces("a")).subscribe(() => {});
    refresh(client, null);
    expect(fetched).toHaveBeenCalledTimes(1);
    await answer();
    expect(fetched).toHaveBeenCalledTimes(2);
    await answer();
    expect(fetched).toHaveBeenCalledTimes(2);
    stop();
    client.clear();
  });

  it("are asked again only if the changes touch them", async () => {
    const client = createQueryClient();
    const stop = new QueryObserver(client, queries.namespaces("a")).subscribe(() => {});
    await answer();
    refresh(client, new Map([["b", null]]));
    expect(fetched).toHaveBeenCalledTimes(1);
    refresh(client, new Map([["a", null]]));
    expect(fetched).toHaveBeenCalledTimes(2);
    stop();
    client.clear();
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
