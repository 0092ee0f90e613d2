// A browser for the tests: Debian's Chromium, with everything recorded that must not happen.
import { spawn } from "node:child_process";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { chromium } from "playwright-core";

/** How long a page may take to show what is waited for. It is long, so that a busy machine fails no check. */
export const PATIENCE = 30_000;

const FLAGS = [
  "--no-sandbox",
  "--disable-gpu",
  "--disable-quic",
  "--no-first-run",
  "--disable-background-networking",
  "--disable-component-update",
  "--disable-sync",
];

/** Starts Chromium without a window and without anything from earlier runs. */
export async function launch() {
  const profile = mkdtempSync(join(tmpdir(), "console-test-"));
  const browser = await chromium.launch({
    executablePath: process.env.CHROMIUM ?? "/usr/bin/chromium",
    headless: true,
    args: FLAGS,
    env: { ...process.env, HOME: profile, XDG_CONFIG_HOME: profile, XDG_CACHE_HOME: profile },
  });
  return {
    browser,
    close: async () => {
      await browser.close();
      rmSync(profile, { recursive: true, force: true });
    },
  };
}

/** Errors of a page: of its scripts, of its requests, and violations of the content security policy. */
export class PageErrors {
  list = [];
  /** Errors that a test causes do not count while this returns true for them. */
  expected = () => false;

  watch(page) {
    page.on("console", (message) => {
      const text = message.text();
      if (text.startsWith("CSP ")) this.list.push(text);
      else if (message.type() === "error" && !this.expected(text)) this.list.push(`console: ${text}`);
    });
    page.on("pageerror", (error) => this.list.push(`script: ${error.message}`));
    page.on("requestfailed", (request) => {
      const why = request.failure()?.errorText ?? "";
      // The page gives a request up when its answer is no longer wanted.
      if (why !== "net::ERR_ABORTED" && !this.expected(request.url())) this.list.push(`request: ${request.url()} ${why}`);
    });
    page.on("response", (response) => {
      if (response.status() >= 400 && !this.expected(response.url())) this.list.push(`answer ${response.status()}: ${response.url()}`);
    });
    return page.addInitScript(() => {
      document.addEventListener("securitypolicyviolation", (event) => {
        console.warn(`CSP ${event.violatedDirective} ${event.blockedURI} ${event.sourceFile}:${event.lineNumber}`);
      });
    });
  }

  /** The errors since the last call. */
  take() {
    return this.list.splice(0);
  }
}

/** Waits until a question to the fixture has the answer that is waited for. */
export async function until(question, wanted) {
  const end = Date.now() + PATIENCE;
  for (;;) {
    const answer = await question();
    if (answer === wanted) return;
    if (Date.now() > end) throw new Error(`the answer is ${answer} and not ${wanted}`);
    await new Promise((resolve) => setTimeout(resolve, 50));
  }
}

/** Starts the fixture on a free port; answers its address and how to stop it. */
export async function startFixture(...options) {
  const script = fileURLToPath(new URL("../dev/fixture.mjs", import.meta.url));
  const child = spawn(process.execPath, [script, "--port", "0", ...options], { stdio: ["ignore", "pipe", "inherit"] });
  const base = await new Promise((resolve, reject) => {
    child.stdout.on("data", (data) => {
      const address = /http:\S+/.exec(String(data));
      if (address) resolve(address[0].replace(/\/$/, ""));
    });
    child.on("exit", (code) => reject(new Error(`the fixture ended with ${code}`)));
  });
  return { base, stop: () => child.kill() };
}
