// Puts a brotli copy beside every built file, prints their sizes, and fails above the budget of the first load.
import { readdirSync, readFileSync, statSync, writeFileSync } from "node:fs";
import { join, relative } from "node:path";
import { fileURLToPath } from "node:url";
import { brotliCompressSync, constants } from "node:zlib";

/** What a browser may have to load before the first page, in bytes of brotli. */
const SCRIPT_BUDGET = 200 * 1024;
/** Below this size a compressed copy saves nothing. */
const SMALLEST = 256;

const dist = fileURLToPath(new URL("../dist", import.meta.url));
const index = readFileSync(join(dist, "index.html"), "utf8");
writeFileSync(join(dist, ".gitkeep"), "");

let scripts = 0;
for (const name of readdirSync(dist, { recursive: true }).map(String).sort()) {
  const path = join(dist, name);
  if (statSync(path).isDirectory() || name.endsWith(".br") || name === ".gitkeep") continue;
  const plain = readFileSync(path);
  const packed = brotliCompressSync(plain, {
    params: { [constants.BROTLI_PARAM_QUALITY]: 11, [constants.BROTLI_PARAM_SIZE_HINT]: plain.length },
  });
  const worth = plain.length >= SMALLEST && packed.length < plain.length;
  if (worth) writeFileSync(`${path}.br`, packed);
  const sent = worth ? packed.length : plain.length;
  const first = index.includes(`/${relative(dist, path)}`);
  if (first && name.endsWith(".js")) scripts += sent;
  console.log(`${name}  ${plain.length} bytes, ${sent} sent${first ? ", first load" : ""}`);
}
console.log(`scripts of the first load: ${(scripts / 1024).toFixed(1)} KiB of ${SCRIPT_BUDGET / 1024} KiB`);
if (scripts > SCRIPT_BUDGET) process.exit(1);
