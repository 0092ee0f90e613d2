// What the fixture can provoke and a hub cannot: outages, an empty fleet, 50,000 rows, a pod that comes and goes.
import { join } from "node:path";
import { Misdeeds, PATIENCE, startFixture } from "./session.mjs";

const ROWS = 50_000;
const MOST_NODES = 2_000;

export async function provoked({ contextOf, base, check, accessible, ready, shots }) {
  for (const theme of ["light", "dark"]) {
    const context = await contextOf({ colorScheme: theme, viewport: { width: 1280, height: 800 } });
    const page = await context.newPage();
    page.setDefaultTimeout(PATIENCE);
    const misdeeds = new Misdeeds();
    misdeeds.expected = (text) => /api\/v1|Failed to load resource/.test(text);
    await misdeeds.watch(page);
    const control = (method, what) => fetch(`${base}/fixture/${what}`, { method });
    const shot = async (name) => shots && page.screenshot({ path: join(shots, `${name}-${theme}-laptop.png`) });
    const step = (name, body) =>
      check(`${name}, ${theme}`, async () => {
        const note = await body();
        const found = misdeeds.take();
        if (found.length > 0) throw new Error(found.join(" | "));
        return note;
      });
    await states({ page, base, step, control, shot, accessible, ready });
    await live({ page, base, step, control, shot, accessible, ready });
    await context.close();
  }
  await emptyFleet({ contextOf, check, accessible, ready, shots });
  await manyRows({ contextOf, check, accessible });
}

async function states({ page, base, step, control, shot, accessible, ready }) {
  await step("loading: bars stand in, and nothing jumps when the text comes", async () => {
    await control("POST", "slow");
    try {
      await page.addInitScript(() => {
        window.shift = 0;
        new PerformanceObserver((list) => {
          for (const entry of list.getEntries()) if (!entry.hadRecentInput) window.shift += entry.value;
        }).observe({ type: "layout-shift", buffered: true });
      });
      const shifts = [];
      for (const path of ["/", "/clusters/c-b20c44", "/clusters/c-7f3a91/namespaces/payments", "/resources?kind=Pod"]) {
        await page.goto(base + path);
        await page.locator(".bone").first().waitFor();
        await accessible(page);
        if (path.startsWith("/resources")) await shot("state-loading");
        await ready(page);
        const shift = await page.evaluate(() => window.shift);
        if (shift > 0.1) throw new Error(`layout shift ${shift.toFixed(3)} on ${path}`);
        shifts.push(shift.toFixed(3));
      }
      return `layout shift ${shifts.join(", ")}`;
    } finally {
      await control("DELETE", "slow");
    }
  });
  await step("error: what failed, the request id, and Retry works", async () => {
    await control("POST", "outage");
    try {
      await page.goto(`${base}/resources?kind=Pod`);
      await page.getByText("Could not load the list.").waitFor();
      await page.getByText(/Request [0-9a-f]{8}/).waitFor();
      await accessible(page);
      await shot("state-error");
    } finally {
      await control("DELETE", "outage");
    }
    await page.getByRole("button", { name: "Retry" }).click();
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
  await step("stale: the banner says how old the data is and since when", async () => {
    await page.goto(`${base}/clusters/c-b20c44`);
    await page.getByText(/Data is \d+ min old: the agent has not reached the hub since \d\d:\d\d\./).waitFor();
    await ready(page);
    if ((await page.locator(".grid-row.muted").count()) === 0) throw new Error("no row is muted");
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
    await other.goto(`${base}/clusters/c-7f3a91/objects/${uid}`);
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
