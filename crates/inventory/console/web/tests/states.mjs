// The states of pages that the fixture can cause and a hub cannot: loading, outages, an empty fleet, 50,000 rows, a pod that comes and goes.
import { join } from "node:path";
import { PageErrors, PATIENCE, startFixture, until } from "./session.mjs";

const ROWS = 50_000;
const MOST_NODES = 2_000;
const REFUSED = { error: { code: "refused", message: "the test refuses it", request_id: "0badc0de" } };
/** The connected and the silent cluster of the fixture. */
const CONNECTED = "c-7f3a91";
const SILENT = "c-b20c44";

export async function states({ contextOf, base, check, accessible, ready, shots }) {
  for (const theme of ["light", "dark"]) {
    const context = await contextOf({ colorScheme: theme, viewport: { width: 1280, height: 800 } });
    const page = await context.newPage();
    page.setDefaultTimeout(PATIENCE);
    const pageErrors = new PageErrors();
    await pageErrors.watch(page);
    const control = (method, what) => fetch(`${base}/fixture/${what}`, { method });
    const shot = async (name) => shots && page.screenshot({ path: join(shots, `${name}-${theme}-laptop.png`) });
    const step = (name, body) =>
      check(`${name}, ${theme}`, async () => {
        pageErrors.expected = (text) => /api\/v1|Failed to load resource/.test(text);
        let note;
        try {
          note = await body();
        } finally {
          // Nothing of this check reaches the next.
          await page.unrouteAll({ behavior: "ignoreErrors" });
        }
        const found = pageErrors.take();
        if (found.length > 0) throw new Error(found.join(" | "));
        return note;
      });
    const parts = { page, base, step, control, shot, accessible, ready, pageErrors };
    await withoutData(parts);
    await withOldData(parts);
    if (theme === "light") {
      await live(parts);
      await navigation(parts);
    }
    await context.close();
  }
  await emptyFleet({ contextOf, check, accessible, ready, shots });
  await manyRows({ contextOf, check, accessible });
}

/** Presses Retry if it is there: an opened stream and the next poll ask again too, and may have been faster. */
async function retry(page) {
  await page.evaluate(() => [...document.querySelectorAll("button")].find((button) => button.textContent === "Retry")?.click());
}

/** What a page shows while it has nothing to show. */
async function withoutData({ page, base, step, control, shot, accessible, ready, pageErrors }) {
  await step("loading: bars stand in, and nothing jumps when the text comes", async () => {
    await page.addInitScript(() => {
      window.shift = 0;
      new PerformanceObserver((list) => {
        for (const entry of list.getEntries()) if (!entry.hadRecentInput) window.shift += entry.value;
      }).observe({ type: "layout-shift", buffered: true });
    });
    const shifts = [];
    for (const path of ["/", `/clusters/${SILENT}`, `/clusters/${CONNECTED}/namespaces/payments`, "/resources?kind=Pod"]) {
      await control("POST", "hold");
      try {
        await page.goto(base + path);
        await page.locator(".skeleton").first().waitFor();
        await accessible(page);
        if (path.startsWith("/resources")) await shot("state-loading");
      } finally {
        await control("DELETE", "hold");
      }
      await ready(page);
      const shift = await page.evaluate(() => window.shift);
      if (shift > 0.1) throw new Error(`layout shift ${shift.toFixed(3)} on ${path}`);
      shifts.push(shift.toFixed(3));
    }
    return `layout shift ${shifts.join(", ")}`;
  });
  await step("error: what failed, the request id, and Retry works", async () => {
    await control("POST", "outage");
    try {
      await page.goto(`${base}/resources?kind=Pod`);
      await page.getByText("Could not load the list.").waitFor();
      await page.getByText(/Request [0-9a-f]{8}/).waitFor();
      await page.getByRole("button", { name: "Retry" }).waitFor();
      await accessible(page);
      await shot("state-error");
    } finally {
      await control("DELETE", "outage");
    }
    await retry(page);
    await page.locator(".grid-body [role=row]:not([aria-busy])").first().waitFor();
  });
  await step("forbidden: says so and by whom", async () => {
    await control("POST", "forbid");
    try {
      await page.goto(`${base}/`);
      await page.getByText("You may not see the clusters.").waitFor();
      await accessible(page);
      await shot("state-forbidden");
    } finally {
      await control("DELETE", "forbid");
    }
  });
  await step("signed out: says what to run", async () => {
    await control("POST", "sign-out");
    try {
      await page.goto(`${base}/`);
      await page.getByText("You are signed out.").waitFor();
      await page.getByText("kubectl trustplane inventory open").waitFor();
      await accessible(page);
      await shot("state-signed-out");
    } finally {
      await control("DELETE", "sign-out");
    }
  });
  await step("failed cluster of a namespace: says so, and Retry works", async () => {
    const cluster = `**/api/v1/clusters/${CONNECTED}`;
    await page.route(cluster, (route) => route.fulfill({ status: 403, json: REFUSED }));
    await page.goto(`${base}/clusters/${CONNECTED}/namespaces/payments`);
    await page.getByText("You may not see the cluster.").waitFor();
    await page.unroute(cluster);
    await page.route(cluster, (route) => route.fulfill({ status: 400, json: REFUSED }));
    await page.reload();
    await page.getByText("Could not load the cluster.").waitFor();
    await page.getByRole("button", { name: "Retry" }).waitFor();
    await page.unroute(cluster);
    await retry(page);
    await page.getByRole("heading", { name: "Latest changes" }).waitFor();
  });
  await step("unknown kind: a name that every JavaScript object has is a kind without objects", async () => {
    await page.goto(`${base}/resources?kind=constructor`);
    await page.getByText("There is no object in the fleet.").waitFor();
  });
  await step("broken page: says what broke, and another page or Reload brings the console back", async () => {
    const { expected } = pageErrors;
    pageErrors.expected = (text) => expected(text) || /TypeError|is not iterable|undefined/.test(text);
    const clusters = "**/api/v1/clusters";
    await page.route(clusters, (route) => route.fulfill({ json: {} }));
    await page.goto(`${base}/`);
    await page.getByText("This page could not be shown.").waitFor();
    await accessible(page);
    await shot("state-broken");
    await page.getByRole("link", { name: "Settings" }).click();
    await page.getByRole("heading", { level: 1, name: "Settings" }).waitFor();
    await page.goBack();
    await page.getByText("This page could not be shown.").waitFor();
    await page.unroute(clusters);
    await page.getByRole("button", { name: "Reload" }).click();
    await page.getByRole("grid", { name: "Clusters" }).waitFor();
  });
}

/** What a page says about data that is not the latest, or not whole. */
async function withOldData({ page, base, step, control, shot, accessible, ready }) {
  const rows = () => page.locator(".grid-body [role=row]:not([aria-busy])");
  await step("stale: the banner says how old the data is and since when", async () => {
    await page.goto(`${base}/clusters/${SILENT}`);
    await page.getByText(/Data is \d+ min old: the agent has not reached the hub since \d\d:\d\d\./).waitFor();
    await ready(page);
    if ((await page.locator(".grid-row.muted").count()) === 0) throw new Error("no row is muted");
    const get = (path) => page.evaluate(async (at) => (await fetch(at)).json(), path);
    const { last_contact: contact } = await get(`/api/v1/clusters/${SILENT}`);
    const [latest] = (await get(`/api/v1/objects?cluster=${SILENT}&sort=changed&order=desc&limit=1`)).items;
    if (latest.changed > contact) throw new Error(`${latest.name} changed at ${latest.changed}, after the last contact at ${contact}`);
  });
  await step("fleet: the problems of a cluster are not cut", async () => {
    await page.goto(`${base}/`);
    await ready(page);
    const texts = await page.getByRole("grid", { name: "Clusters" }).locator(".status-warning > span").evaluateAll((spans) =>
      spans.filter((span) => span.scrollHeight > span.clientHeight + 1 || span.scrollWidth > span.clientWidth + 1).map((span) => span.textContent),
    );
    if (texts.length > 0) throw new Error(`cut: ${texts.join(" | ")}`);
  });
  await step("failed refresh: old data stays below a notice, which goes when the hub is back", async () => {
    await page.goto(`${base}/`);
    await ready(page);
    await control("POST", "outage");
    try {
      await page.getByText(/Could not refresh the clusters: what you see is from \d\d:\d\d\./).waitFor();
      await page.getByText(/Request [0-9a-f]{8}/).first().waitFor();
      await page.getByRole("button", { name: "Retry" }).first().waitFor();
      await rows().first().waitFor();
      await accessible(page);
      await shot("state-refresh-failed");
    } finally {
      await control("DELETE", "outage");
    }
    await page.getByText("Could not refresh").first().waitFor({ state: "detached" });
  });
  for (const [name, path] of [["list", "/resources"], ["search", "/search?q=e"]]) {
    await step(`failed page of a ${name}: a notice with the request id, and Retry works`, async () => {
      await page.goto(base + path);
      await rows().first().waitFor();
      await control("POST", "fail-pages");
      try {
        await page.evaluate(() => document.querySelector(".page-list").scrollTo(0, 20_000));
        await page.getByText(/Could not load all rows: some may be missing or old\. The database does not answer\./).waitFor();
        await page.getByText(/Request [0-9a-f]{8}/).waitFor();
        await page.getByRole("button", { name: "Retry" }).waitFor();
        await accessible(page);
        await shot(`state-failed-page-${name}`);
      } finally {
        await control("DELETE", "fail-pages");
      }
      await retry(page);
      await page.getByText("Could not load all rows").waitFor({ state: "detached" });
      await page.waitForFunction(() => document.querySelector(".grid-body [aria-busy]") === null);
    });
  }
  await step("namespace that the hub forgets: its old contents go", async () => {
    await page.goto(`${base}/clusters/${CONNECTED}/namespaces/payments`);
    await page.getByRole("heading", { name: "Latest changes" }).waitFor();
    const counts = "**/counts?*";
    await page.route(counts, (route) => route.fulfill({ status: 404, json: REFUSED }));
    await control("POST", "pod?name=news");
    await page.getByText("The hub knows no namespace at this address.").waitFor();
    await page.getByRole("heading", { name: "Latest changes" }).waitFor({ state: "detached" });
    await control("DELETE", "pod?name=news");
  });
}

async function live({ page, base, step, control, shot, accessible, ready }) {
  const name = "comes-and-goes";
  const row = () => page.getByRole("link", { name, exact: true });
  await step("live: a pod appears and vanishes without a reload, and its page says that it is gone", async () => {
    await page.goto(`${base}/resources?kind=Pod&q=comes`);
    await page.getByText("No Pod matches these filters.").waitFor();
    const created = Date.now();
    const uid = await (await control("POST", `pod?name=${name}`)).text();
    await row().waitFor();
    const seen = Date.now() - created;
    const other = await page.context().newPage();
    await other.goto(`${base}/clusters/${CONNECTED}/objects/${uid}`);
    await other.getByRole("heading", { name }).waitFor();
    await control("DELETE", `pod?name=${name}`);
    await row().waitFor({ state: "detached" });
    await other.getByText("What you see is its last known state.").waitFor();
    await accessible(other);
    await other.close();
    return `seen after ${seen} ms`;
  });
  await step("live: the focus stays on the same object when a row comes before it", async () => {
    await page.goto(`${base}/resources?kind=Pod`);
    await ready(page);
    await page.locator('[role=row][data-index="3"]').focus();
    const before = await page.evaluate(() => document.activeElement?.querySelector("a")?.textContent);
    await control("POST", "pod?name=aaa-first");
    await page.getByRole("link", { name: "aaa-first" }).waitFor();
    await page.waitForFunction((text) => document.activeElement?.querySelector("a")?.textContent === text, before);
    await control("DELETE", "pod?name=aaa-first");
    await page.getByRole("link", { name: "aaa-first" }).waitFor({ state: "detached" });
    await page.waitForFunction((text) => document.activeElement?.querySelector("a")?.textContent === text, before);
  });
  await step("live: the loss of the hub shows, and what was missed shows after its return", async () => {
    await page.goto(`${base}/resources?kind=Pod&q=missed`);
    await page.getByText("No Pod matches these filters.").waitFor();
    await control("POST", "outage");
    try {
      await page.getByText(/Offline since/).waitFor();
      await accessible(page);
      await shot("state-offline");
      await control("POST", "pod?name=missed-while-away");
    } finally {
      await control("DELETE", "outage");
    }
    await page.getByText("Live", { exact: true }).first().waitFor({ timeout: 2 * PATIENCE });
    await page.getByRole("link", { name: "missed-while-away" }).waitFor();
    await control("DELETE", "pod?name=missed-while-away");
  });
  await step("live: a change between the first answer and the open stream shows", async () => {
    let openStream;
    const isOpen = new Promise((resolve) => (openStream = resolve));
    await page.route("**/api/v1/live", async (route) => {
      await isOpen;
      await route.continue();
    });
    await page.goto(`${base}/resources?kind=Pod&q=early`);
    await page.getByText("No Pod matches these filters.").waitFor();
    await control("POST", "pod?name=early-bird");
    openStream();
    await page.getByRole("link", { name: "early-bird" }).waitFor();
    await control("DELETE", "pod?name=early-bird");
  });
  await step("live: a hidden page has no stream, and shows what it missed when it is seen again", async () => {
    const streams = async () => (await control("GET", "streams")).text();
    const show = (isVisible) =>
      page.evaluate((visible) => {
        Object.defineProperty(document, "hidden", { configurable: true, get: () => !visible });
        Object.defineProperty(document, "visibilityState", { configurable: true, get: () => (visible ? "visible" : "hidden") });
        document.dispatchEvent(new Event("visibilitychange", { bubbles: true }));
      }, isVisible);
    await page.goto(`${base}/resources?kind=Pod&q=unseen`);
    await page.getByText("No Pod matches these filters.").waitFor();
    await until(streams, "1");
    await show(false);
    await until(streams, "0");
    await control("POST", "pod?name=unseen");
    await show(true);
    await page.getByRole("link", { name: "unseen" }).waitFor();
    await until(streams, "1");
    await control("DELETE", "pod?name=unseen");
  });
}

/** Where a person is after going somewhere, and what Enter opens. */
async function navigation({ page, base, step, ready }) {
  await step("scroll: another order starts at the top, and going back returns to the old place", async () => {
    await page.goto(`${base}/resources?kind=Pod`);
    await ready(page);
    const top = () => page.evaluate(() => document.querySelector(".page-list").scrollTop);
    await page.evaluate(() => document.querySelector(".page-list").scrollTo(0, 1500));
    await until(top, 1500);
    await page.getByRole("columnheader", { name: "Age", exact: true }).getByRole("button").click();
    await page.waitForURL(/sort=-created/);
    await until(top, 0);
    await page.goBack();
    await page.waitForURL((url) => !url.search.includes("sort="));
    await until(top, 1500);
  });
  await step("search: Enter opens nothing that an earlier text found", async () => {
    await page.goto(`${base}/settings`);
    await ready(page);
    await page.keyboard.press("/");
    await page.keyboard.type("checkout-api");
    await page.getByRole("option", { name: /^checkout-api/ }).first().waitFor();
    let answer;
    const isAnswered = new Promise((resolve) => (answer = resolve));
    await page.route("**/api/v1/objects?*", async (route) => {
      await isAnswered;
      await route.continue();
    });
    await page.keyboard.type("-config");
    await page.keyboard.press("Enter");
    if ((await page.getByRole("option", { name: /^checkout-api/ }).count()) > 0) throw new Error("an object of the earlier text is offered");
    if (!page.url().endsWith("/settings")) throw new Error(`Enter opened ${page.url()}`);
    answer();
    await page.getByRole("option", { name: /^checkout-api-config/ }).first().waitFor();
    await page.keyboard.press("Enter");
    await page.getByRole("heading", { level: 1, name: "checkout-api-config" }).waitFor();
  });
}

async function emptyFleet({ contextOf, check, accessible, ready, shots }) {
  const fixture = await startFixture("--empty");
  const context = await contextOf({ viewport: { width: 1280, height: 800 } });
  const page = await context.newPage();
  await check("empty fleet: the page names the command that adds a cluster", async () => {
    await page.goto(`${fixture.base}/`);
    await ready(page);
    await page.getByText("kubectl trustplane inventory enroll --name NAME").waitFor();
    await accessible(page);
    if (shots) await page.screenshot({ path: join(shots, "state-empty-light-laptop.png") });
    await page.goto(`${fixture.base}/resources`);
    await page.getByText("kubectl trustplane inventory enroll --name NAME").waitFor();
    await accessible(page);
  });
  await context.close();
  fixture.stop();
}

async function manyRows({ contextOf, check, accessible }) {
  const fixture = await startFixture("--rows", String(ROWS));
  const context = await contextOf({ viewport: { width: 1280, height: 800 } });
  const page = await context.newPage();
  page.setDefaultTimeout(4 * PATIENCE);
  const nodes = () => page.evaluate(() => document.querySelectorAll("*").length);
  await check(`${ROWS} rows: the first rows come`, async () => {
    await page.goto(`${fixture.base}/settings`);
    const start = Date.now();
    await page.goto(`${fixture.base}/resources?kind=Pod&cluster=c-load`);
    await page.getByRole("link", { name: "worker-000000" }).waitFor();
    const took = Date.now() - start;
    return `${took} ms`;
  });
  await check(`${ROWS} rows: fewer than ${MOST_NODES} nodes while scrolling, and the last row is reached`, async () => {
    let most = await nodes();
    for (let turn = 0; turn < 20; turn += 1) {
      await page.evaluate((top) => document.querySelector(".page-list").scrollTo(0, top), turn * 9_000);
      await page.evaluate(() => new Promise((resolve) => requestAnimationFrame(() => requestAnimationFrame(resolve))));
      most = Math.max(most, await nodes());
    }
    await page.locator("[role=row][data-index]").first().focus();
    await page.keyboard.press("End");
    await page.getByRole("link", { name: `worker-${String(ROWS - 1).padStart(6, "0")}` }).waitFor();
    most = Math.max(most, await nodes());
    if (most >= MOST_NODES) throw new Error(`${most} nodes`);
    await accessible(page);
    return `at most ${most} nodes`;
  });
  await context.close();
  fixture.stop();
}
