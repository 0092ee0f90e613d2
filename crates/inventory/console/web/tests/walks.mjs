// Two ways through the console: one by mouse, one by keyboard alone.
import { join } from "node:path";
import { PageErrors, PATIENCE } from "./session.mjs";

export async function walks({ context, base, theme, check, accessible, ready, addresses, shots }) {
  const page = await context.newPage();
  page.setDefaultTimeout(PATIENCE);
  const pageErrors = new PageErrors();
  await pageErrors.watch(page);
  await page.goto(`${base}/`);
  await ready(page);
  const { pages, main, pod } = await addresses(page);
  const step = (name, body) =>
    check(`${name}, ${theme}`, async () => {
      const note = await body();
      const found = pageErrors.take();
      if (found.length > 0) throw new Error(found.join(" | "));
      return note;
    });
  const heading = (text) => page.getByRole("heading", { level: 1, name: text, exact: true }).waitFor();
  const shot = async (name) => shots && page.screenshot({ path: join(shots, `${name}-${theme}-laptop.png`) });

  await byMouse({ page, base, step, heading, shot, accessible, pages, main, pod });
  await byKeyboard({ page, base, step, heading, shot, accessible, ready, pages, main, pod });
  await page.close();
}

async function byMouse({ page, base, step, heading, shot, accessible, main, pod }) {
  const rows = () => page.locator(".grid-body [role=row]:not([aria-busy])");

  await step("mouse: a row of the fleet opens its cluster", async () => {
    await page.goto(`${base}/`);
    await rows().filter({ hasText: main.name }).first().click();
    await heading(main.name);
    await focusIsOnHeading(page);
  });
  await step("mouse: a tab is a part of the address", async () => {
    await page.getByRole("tab", { name: /Network/ }).click();
    await page.waitForURL(/tab=network/);
    await page.getByRole("link", { name: /Services/ }).waitFor();
  });
  await step("mouse: a namespace opens, and its kinds lead to lists", async () => {
    await page.getByRole("grid", { name: "Namespaces" }).getByRole("link", { name: pod.namespace, exact: true }).click();
    await heading(pod.namespace);
    await page.getByRole("link", { name: /^Pods/ }).click();
    await heading("Pods");
    await page.waitForURL(/kind=Pod/);
  });
  await step("mouse: an object opens from the list, and going back keeps the list", async () => {
    const address = page.url();
    await rows().first().waitFor();
    await rows().first().locator("[role=gridcell]").nth(1).click();
    await page.getByRole("tab", { name: "Overview" }).waitFor();
    await page.goBack();
    await heading("Pods");
    if (page.url() !== address) throw new Error(`came back to ${page.url()}`);
  });
  await step("mouse: filters are the address, and the address is the filters", async () => {
    await page.goto(`${base}/resources`);
    await page.getByRole("button", { name: "Filter by kind" }).click();
    await page.getByRole("menuitemradio", { name: /Deployments/ }).click();
    await page.waitForURL(/kind=Deployment/);
    await page.getByRole("button", { name: /^Fine/ }).click();
    await page.waitForURL(/status=ok/);
    await page.getByRole("columnheader", { name: "Changed" }).getByRole("button").click();
    await page.waitForURL(/sort=-changed/);
    await page.getByRole("searchbox", { name: "Filter by name" }).fill("a");
    await page.waitForURL(/q=a/);
    await page.getByRole("button", { name: /Remove the filter Kind/ }).click();
    await page.waitForURL((url) => !url.search.includes("kind="));
    await page.reload();
    if ((await page.getByRole("searchbox", { name: "Filter by name" }).inputValue()) !== "a") throw new Error("the name filter is gone after a reload");
  });
  await step("mouse: a column comes and goes", async () => {
    await page.goto(`${base}/resources?kind=Pod`);
    await page.getByRole("button", { name: "Choose columns" }).click();
    await page.getByRole("menuitemcheckbox", { name: "Age", exact: true }).click();
    await page.keyboard.press("Escape");
    await page.getByRole("columnheader", { name: "Age", exact: true }).waitFor({ state: "detached" });
    await page.getByRole("button", { name: "Choose columns" }).click();
    await page.getByRole("menuitem", { name: "Back to the usual columns" }).click();
    await page.getByRole("columnheader", { name: "Age", exact: true }).waitFor();
  });
  await step("mouse: filters are kept as a view and forgotten", async () => {
    await page.goto(`${base}/resources?kind=Deployment&status=ok`);
    await page.getByRole("button", { name: "Views" }).click();
    await accessible(page);
    await shot("views");
    await page.getByRole("menuitem", { name: "Keep these filters" }).click();
    await page.goto(`${base}/resources`);
    await page.getByRole("button", { name: "Views" }).click();
    await page.getByRole("menuitem", { name: "Deployments · fine" }).click();
    await page.waitForURL(/kind=Deployment&status=ok/);
    await page.getByRole("button", { name: "Views" }).click();
    await page.getByRole("menuitem", { name: "Forget this view" }).click();
  });
  await step("mouse: a part of the breadcrumbs opens its siblings", async () => {
    await page.goto(`${base}/clusters/${main.id}/namespaces/${pod.namespace}`);
    await page.getByRole("button", { name: "Other namespaces" }).click();
    await page.getByRole("menu").waitFor();
    await accessible(page);
    await shot("siblings");
    const other = page.getByRole("menuitemradio").filter({ hasNotText: pod.namespace }).first();
    const name = await other.locator(".menu-text").textContent();
    await other.click();
    await heading(name);
  });
  await step("mouse: the kind in the breadcrumbs opens the other kinds of the namespace", async () => {
    await page.goto(`${base}/clusters/${pod.cluster}/objects/${pod.uid}`);
    await page.getByRole("button", { name: "Other kinds" }).click();
    await page.getByRole("menuitemradio", { name: /^ConfigMaps/ }).click();
    await heading("ConfigMaps");
    await page.waitForURL((url) => url.searchParams.get("namespace") === pod.namespace);
  });
  await step("mouse: the panel says how to add a cluster", async () => {
    await page.goto(`${base}/`);
    await page.getByRole("button", { name: "Add cluster" }).click();
    await page.getByText("kubectl trustplane inventory enroll --name NAME").waitFor();
    await accessible(page);
    await shot("add-cluster");
    await page.getByRole("dialog").getByRole("button", { name: "Close" }).click();
  });
}

async function byKeyboard({ page, base, step, heading, shot, accessible, ready, pages, main, pod }) {
  const press = async (...keys) => {
    for (const key of keys) await page.keyboard.press(key);
  };
  const focused = () => page.evaluate(() => document.activeElement?.closest("[data-index]")?.getAttribute("data-index") ?? document.activeElement?.textContent);

  await step("keys: the first Tab skips to the page", async () => {
    await page.goto(`${base}/`);
    await ready(page);
    await press("Tab");
    if (!(await page.getByRole("link", { name: "Skip to the page" }).evaluate((link) => link === document.activeElement))) {
      throw new Error(`the focus is on ${await focused()}`);
    }
    await press("Enter");
    await focusIsOnHeading(page);
  });
  await step("keys: Tab reaches everything on the page and shows where it is", async () => {
    await page.goto(`${base}/`);
    await ready(page);
    const seen = new Set();
    for (let count = 0; count < 60; count += 1) {
      await press("Tab");
      const here = await page.evaluate(() => {
        const element = document.activeElement;
        if (element === null || element === document.body) return null;
        const style = getComputedStyle(element);
        const ring = style.outlineStyle !== "none" && parseFloat(style.outlineWidth) > 0;
        const box = element.getBoundingClientRect();
        return { text: (element.getAttribute("aria-label") ?? element.textContent ?? "").slice(0, 40), ring, inView: box.bottom > 0 && box.top < innerHeight };
      });
      if (here === null) break;
      if (!here.ring) throw new Error(`no ring around “${here.text}”`);
      if (!here.inView) throw new Error(`“${here.text}” has the focus out of view`);
      seen.add(here.text);
    }
    for (const name of ["Fleet", "Resources", "Search", "Settings", "Search by name", "Add cluster"]) {
      if (!seen.has(name)) throw new Error(`Tab does not reach ${name}`);
    }
    return `${seen.size} stops`;
  });
  await step("keys: arrows move between rows, Enter opens one", async () => {
    await page.goto(base + pages.pods);
    await ready(page);
    await page.locator('[role=row][data-index="0"]').focus();
    await press("ArrowDown", "ArrowDown");
    if ((await focused()) !== "2") throw new Error(`the focus is on row ${await focused()}`);
    await press("ArrowUp", "End");
    await page.waitForFunction(() => Number(document.activeElement?.getAttribute("aria-rowindex")) === Number(document.querySelector("[role=grid]")?.getAttribute("aria-rowcount")));
    await press("Home");
    if ((await focused()) !== "0") throw new Error(`Home leads to row ${await focused()}`);
    await shot("row-focus");
    await press("ArrowRight");
    const link = await page.evaluate(() => document.activeElement?.tagName);
    if (link !== "A") throw new Error(`ArrowRight leads to ${link}`);
    await press("ArrowLeft", "Enter");
    await page.getByRole("tab", { name: "Overview" }).waitFor();
    await focusIsOnHeading(page);
    await page.goBack();
    await heading("Pods");
  });
  await step("keys: Ctrl-K in a table opens the search and does not move between rows", async () => {
    await page.goto(base + pages.pods);
    await ready(page);
    await page.locator('[role=row][data-index="1"]').focus();
    await press("Control+k");
    await page.getByRole("dialog", { name: "Search the fleet" }).waitFor();
    await press("Escape");
    await page.getByRole("dialog").waitFor({ state: "detached" });
    await page.waitForFunction(() => document.activeElement?.getAttribute("data-index") !== null);
    if ((await focused()) !== "1") throw new Error(`the focus is on row ${await focused()}`);
  });
  await step("keys: tabs by arrows", async () => {
    await page.goto(base + pages.object);
    await ready(page);
    await page.getByRole("tab", { name: "Overview" }).focus();
    await press("ArrowRight");
    await page.waitForURL(/tab=related/);
    await press("ArrowRight", "ArrowRight");
    await page.waitForURL(/tab=raw/);
  });
  await step("keys: / opens the search, results come while one types, Enter opens the first", async () => {
    await page.goto(`${base}/`);
    await ready(page);
    await press("/");
    await page.keyboard.type(pod.name);
    await page.getByRole("option", { name: pod.name }).first().waitFor();
    await accessible(page);
    await shot("palette");
    await press("Enter");
    await heading(pod.name);
  });
  await step("keys: Ctrl-K opens the search and Escape closes it", async () => {
    await press("Control+k");
    await page.getByRole("dialog", { name: "Search the fleet" }).waitFor();
    await press("Escape");
    await page.getByRole("dialog").waitFor({ state: "detached" });
  });
  await step("keys: a menu of siblings by typing", async () => {
    await page.goto(`${base}/clusters/${main.id}`);
    await ready(page);
    await page.getByRole("button", { name: "Other clusters" }).focus();
    await press("Enter");
    await page.getByRole("menu").waitFor();
    await press("Escape");
    await page.getByRole("menu").waitFor({ state: "detached" });
  });
  await step("keys: theme and density by arrows, kept after a reload", async () => {
    await page.goto(`${base}/settings`);
    await page.getByRole("radio", { name: "As the system" }).focus();
    await press("ArrowRight", "ArrowRight");
    await page.waitForFunction(() => document.documentElement.dataset.theme === "dark");
    await page.getByRole("radio", { name: "Comfortable" }).focus();
    await press("ArrowRight");
    await page.waitForFunction(() => document.documentElement.dataset.density === "compact");
    await page.reload();
    const kept = await page.evaluate(() => ({ ...document.documentElement.dataset }));
    if (kept.theme !== "dark" || kept.density !== "compact") throw new Error(`kept ${JSON.stringify(kept)}`);
    await accessible(page);
    await page.goto(base + pages.pods);
    await ready(page);
    const height = await page.locator('[role=row][data-index="0"]').evaluate((row) => row.offsetHeight);
    if (height !== 28) throw new Error(`a row is ${height} px high`);
    await accessible(page);
    await page.evaluate(() => localStorage.clear());
  });
}

async function focusIsOnHeading(page) {
  await page.waitForFunction(() => document.activeElement?.tagName === "H1");
}
