// What the demo's browser does: from the fleet to a cluster, to a namespace, to its pods, and then it looks on while a pod comes and goes.
//
//   node watch.mjs LINK CLUSTER NAMESPACE POD
//
// It prints "saw: …" for each thing that it sees, and "now: ready", "now: appeared" and "now: vanished" when the demo has to go on. The
// demo puts it beside the console's own browser scripts. The page is opened once and never loaded again.
import { launch } from "./session.mjs";

/** How long each thing may take to show up, in milliseconds. */
const PATIENCE = 60_000;

const [link, cluster, namespace, pod] = process.argv.slice(2);
const saw = (text) => console.log(`saw: ${text}`);
const now = (word) => console.log(`now: ${word}`);
const { browser, close } = await launch();
let what = "the page behind the link";
let isOver = false;
try {
  const page = await browser.newPage();
  page.setDefaultTimeout(PATIENCE);
  const heading = (name) => page.getByRole("heading", { level: 1, name, exact: true }).waitFor();
  const links = (grid) => page.getByRole("grid", { name: grid }).locator("a.name");
  await page.goto(link);

  what = `cluster ${cluster} in the fleet`;
  const row = links("Clusters").filter({ hasText: cluster });
  await row.waitFor();
  saw(`the fleet has the cluster ${cluster}`);
  await row.click();
  await heading(cluster);

  what = `namespace ${namespace} of the cluster`;
  const space = page.getByRole("grid", { name: "Namespaces" }).getByRole("link", { name: namespace, exact: true });
  await space.waitFor();
  const spaces = await links("Namespaces").allTextContents();
  saw(`the cluster has the namespaces ${spaces.join(", ")}`);
  await space.click();
  await heading(namespace);

  what = `the pods of namespace ${namespace}`;
  await page.getByRole("link", { name: /^Pods/ }).click();
  await heading("Pods");
  await page.locator("a.name").first().waitFor();
  const pods = await page.locator("a.name").allTextContents();
  saw(`the namespace ${namespace} has the pods ${pods.join(", ")}`);
  now("ready");

  const guest = page.getByRole("link", { name: pod, exact: true });
  what = `pod ${pod} to appear`;
  await guest.first().waitFor();
  saw(`the pod ${pod} appeared on the page, without a reload`);
  now("appeared");
  what = `pod ${pod} to vanish`;
  await guest.first().waitFor({ state: "detached" });
  saw(`the pod ${pod} vanished from the page, without a reload`);
  now("vanished");
  isOver = true;
} catch (error) {
  console.error(`waited for ${what}: ${String(error?.message ?? error).split("\n")[0]}`);
} finally {
  await close();
}
process.exit(isOver ? 0 : 1);
