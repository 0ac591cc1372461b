// Megabytes a second of secretlint on one file, in this process: node speed_secretlint.mjs FILE
// npm install @secretlint/core @secretlint/secretlint-rule-preset-recommend
import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
const from = createRequire(process.cwd() + "/");
const { lintSource } = await import(from.resolve("@secretlint/core"));
const preset = await import(from.resolve("@secretlint/secretlint-rule-preset-recommend"));
const content = readFileSync(process.argv[2], "utf8");
const config = { rules: [{ id: "@secretlint/secretlint-rule-preset-recommend", rule: preset.creator, options: {} }] };
const source = { filePath: "corpus.txt", content, contentType: "text" };
await lintSource({ source: { ...source, content: "warm" }, options: { config } });
const start = process.cpuUsage();
const result = await lintSource({ source, options: { config } });
const { user, system } = process.cpuUsage(start);
console.log(`secretlint ${(Buffer.byteLength(content) / (user + system)).toFixed(2)} MB/s, ${result.messages.length} hits`);
