// Walks through the console as a person would: every page, by mouse and by keyboard, in both themes.
//
//   node tests/browser.mjs [--base URL] [--link URL] [--shots DIR] [--every] [--states]
//
// It opens every page on a laptop in both themes and on a phone in the light one; --every, which --shots implies, adds the dark phone and
// a large screen.
// Without --base and --link it starts the fixture, which can cause every state of a page: loading, errors, a lost hub, an ended session,
// an empty fleet, 50,000 rows. --states checks these states alone. With a hub, give the sign-in link: it is used once, and its origin is
// the base. One line per check; the exit code is 1 if any check failed.
import { mkdirSync, readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { join } from "node:path";
import { parseArgs } from "node:util";
import { launch, PageErrors, PATIENCE, startFixture } from "./session.mjs";
import { states } from "./states.mjs";
import { walks } from "./walks.mjs";

const { values: options } = parseArgs({
  options: {
    base: { type: "string", default: process.env.CONSOLE_BASE ?? "" },
    link: { type: "string", default: process.env.CONSOLE_LINK ?? "" },
    shots: { type: "string", default: "" },
    every: { type: "boolean", default: false },
    states: { type: "boolean", default: false },
  },
});
const axeSource = readFileSync(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8");
const SIZES = { laptop: { width: 1280, height: 800 }, desk: { width: 1920, height: 1080 }, phone: { width: 390, height: 844 } };
const RULES = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"];
let failures = 0;

/** Runs one check and prints its line. A check that fails does not stop the others. */
async function check(name, body) {
  const start = Date.now();
  try {
    const note = await body();
    const took = `${((Date.now() - start) / 1000).toFixed(1)} s`;
    console.log(`ok      ${name} (${note ? `${note}, ` : ""}${took})`);
  } catch (error) {
    failures += 1;
    console.log(`FAILED  ${name}: ${String(error?.message ?? error).split("\n").slice(0, 6).join(" | ")}`);
  }
}

/** Fails if axe-core finds anything in the page as it is now. */
async function accessible(page) {
  if (!(await page.evaluate(() => "axe" in window))) await page.evaluate(axeSource);
  const { violations } = await page.evaluate((rules) => window.axe.run(document, { runOnly: rules, resultTypes: ["violations"] }), RULES);
  const found = violations.map(({ id, nodes }) => `${id}: ${nodes.slice(0, 3).map((node) => `${node.html.slice(0, 140)} [${node.any[0]?.message ?? ""}]`).join(" ;; ")}`);
  if (found.length > 0) throw new Error(found.join(" | "));
}

/** Waits until the page shows what it has: no bars in the place of text. */
async function ready(page) {
  await page.locator("h1").first().waitFor({ timeout: PATIENCE });
  await page.waitForFunction(() => document.querySelector(".skeleton") === null, undefined, { timeout: PATIENCE });
}

/** Addresses of every page, found by asking the API as the signed-in person. */
async function addresses(page) {
  const get = (path) => page.evaluate(async (at) => (await fetch(at)).json(), path);
  const { items: clusters } = await get("/api/v1/clusters");
  const main = clusters.find((cluster) => cluster.state === "connected" && cluster.objects > 0) ?? clusters[0];
  if (main === undefined) throw new Error("the hub has no cluster to look at");
  const pick = async (query) => (await get(`/api/v1/objects?cluster=${main.id}&limit=1&${query}`)).items[0];
  const pod = (await pick("kind=Pod&status=error")) ?? (await pick("kind=Pod"));
  const at = (object, tab = "") => `/clusters/${object.cluster}/objects/${object.uid}${tab}`;
  const pages = {
    fleet: "/",
    cluster: `/clusters/${main.id}`,
    "cluster rbac": `/clusters/${main.id}?tab=rbac`,
    "cluster events": `/clusters/${main.id}?tab=events`,
    namespace: `/clusters/${main.id}/namespaces/${pod.namespace}`,
    resources: "/resources",
    pods: "/resources?kind=Pod&sort=-changed",
    "pods of a cluster": `/resources?kind=Pod&cluster=${main.id}&namespace=${pod.namespace}`,
    "no match": "/resources?q=no-object-has-this-name",
    object: at(pod),
    "object related": at(pod, "?tab=related"),
    "object events": at(pod, "?tab=events"),
    "object raw": at(pod, "?tab=raw"),
    search: `/search?q=${pod.name.slice(0, 4)}`,
    "search without text": "/search",
    settings: "/settings",
    "no page": "/there/is/no/such/page",
  };
  for (const cluster of clusters) if (cluster.id !== main.id) pages[`cluster ${cluster.state}`] = `/clusters/${cluster.id}`;
  for (const kind of ["Deployment", "Secret", "Node", "Service", "RoleBinding"]) {
    const object = await pick(`kind=${kind}`);
    if (object) pages[`object ${kind}`] = at(object);
  }
  return { pages, main, pod };
}

/** Opens every page in one theme and size: axe, the content security policy, requests, overflow. */
async function everyPage(context, base, theme, sizeName) {
  const page = await context.newPage();
  const pageErrors = new PageErrors();
  await pageErrors.watch(page);
  await page.goto(`${base}/`);
  await ready(page);
  const { pages } = await addresses(page);
  for (const [name, path] of Object.entries(pages)) {
    await check(`${name}, ${theme}, ${sizeName}`, async () => {
      await page.goto(base + path);
      await ready(page);
      await accessible(page);
      const wider = await page.evaluate(() => document.documentElement.scrollWidth - innerWidth);
      if (wider > 0) throw new Error(`the page is ${wider} px wider than the screen`);
      if (options.shots) await page.screenshot({ path: join(options.shots, `${name.replaceAll(" ", "-")}-${theme}-${sizeName}.png`) });
      const found = pageErrors.take();
      if (found.length > 0) throw new Error(found.join(" | "));
    });
  }
  await page.close();
}

/** Every page in every theme and size, then by mouse and by keyboard. */
async function everyTheme(contextOf, base) {
  for (const theme of ["light", "dark"]) {
    for (const [sizeName, viewport] of Object.entries(SIZES)) {
      const isExtra = sizeName === "desk" || (sizeName === "phone" && theme === "dark");
      if (isExtra && !options.every && !options.shots) continue;
      const context = await contextOf({ colorScheme: theme, viewport });
      await everyPage(context, base, theme, sizeName);
      await context.close();
    }
    const context = await contextOf({ colorScheme: theme, viewport: SIZES.laptop });
    await walks({ context, base, theme, check, accessible, ready, addresses, shots: options.shots });
    await context.close();
  }
}

async function main() {
  if (options.shots) mkdirSync(options.shots, { recursive: true });
  const fixture = options.base || options.link ? null : await startFixture();
  try {
    const base = (options.base || (options.link && new URL(options.link).origin) || fixture?.base).replace(/\/$/, "");
    const { browser, close } = await launch();
    const signedIn = await browser.newContext();
    if (options.link) {
      const page = await signedIn.newPage();
      await check("the sign-in link opens the console", async () => {
        await page.goto(options.link);
        await page.getByRole("heading", { name: "Fleet" }).waitFor({ timeout: PATIENCE });
      });
      await page.close();
    }
    const storageState = await signedIn.storageState();
    // A colour on its way to another would be a finding of axe-core.
    const contextOf = (more) => browser.newContext({ storageState, reducedMotion: "reduce", ...more });
    if (!options.states) await everyTheme(contextOf, base);
    if (fixture) await states({ contextOf, base, check, accessible, ready, shots: options.shots });
    await close();
  } finally {
    fixture?.stop();
  }
  console.log(failures === 0 ? "all checks passed" : `${failures} checks failed`);
  process.exitCode = failures === 0 ? 0 : 1;
}

await main();
