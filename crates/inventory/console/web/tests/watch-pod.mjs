// Watches a pod come and go on the page, for the demo and the end-to-end tests.
//
//   node tests/watch-pod.mjs --link URL --name POD [--wait SECONDS]
//
// Opens the sign-in link, waits until the pod is on the list of resources, prints "visible", waits until it is gone, prints
// "vanished". Each wait ends after --wait seconds (120 unless told) with the exit code 1. The page is never loaded again.
import { parseArgs } from "node:util";
import { launch } from "./session.mjs";

const { values: options } = parseArgs({
  options: { link: { type: "string" }, name: { type: "string" }, wait: { type: "string", default: "120" } },
});
if (!options.link || !options.name) {
  console.error("usage: watch-pod.mjs --link URL --name POD [--wait SECONDS]");
  process.exit(2);
}
const patience = Number(options.wait) * 1000;
const origin = new URL(options.link).origin;
const { browser, close } = await launch();
let isOver = false;
try {
  const page = await browser.newPage();
  page.setDefaultTimeout(patience);
  await page.goto(options.link);
  await page.getByRole("navigation", { name: "Main" }).waitFor();
  await page.goto(`${origin}/resources?kind=Pod&q=${encodeURIComponent(options.name)}`);
  const pod = page.getByRole("link", { name: options.name, exact: true }).first();
  console.log(`waiting for pod ${options.name}`);
  await pod.waitFor({ state: "visible" });
  console.log(`visible: pod ${options.name}`);
  await page.waitForFunction((name) => ![...document.querySelectorAll("a.name")].some((link) => link.textContent === name), options.name);
  console.log(`vanished: pod ${options.name}`);
  isOver = true;
} catch (error) {
  console.error(`pod ${options.name}: ${String(error?.message ?? error).split("\n")[0]}`);
} finally {
  await close();
}
process.exit(isOver ? 0 : 1);
