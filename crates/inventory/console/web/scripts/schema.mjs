// Writes the types of the hub's answers into src/api/schema.ts. With --check it only says whether the file is up to date.
// Requests are written by hand in src/api/client.ts, so the paths of the API are left out.
import { readFileSync, writeFileSync } from "node:fs";
import openapiTS, { astToString } from "openapi-typescript";

const source = new URL("../../../hub/openapi.json", import.meta.url);
const target = new URL("../src/api/schema.ts", import.meta.url);
const document = { ...JSON.parse(readFileSync(source, "utf8")), paths: {} };
const text = `// Generated from the hub's openapi.json by \`npm run schema\`. Do not edit.\n${astToString(await openapiTS(document))}`;
if (process.argv.includes("--check")) {
  if (readFileSync(target, "utf8") !== text) {
    console.error("src/api/schema.ts differs from openapi.json: run `npm run schema`");
    process.exit(1);
  }
} else {
  writeFileSync(target, text);
}
