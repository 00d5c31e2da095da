import { realpathSync } from "node:fs";
import { expect, test } from "vitest";
import { atLeast, isInstalled, systemNode } from "./workspace.mjs";

test("versions compare by number, not by text", () => {
  expect(atLeast("20.19.0", [20, 19])).toBe(true);
  expect(atLeast("20.9.0", [20, 19])).toBe(false);
  expect(atLeast("100.0.0", [20, 19])).toBe(true);
  expect(atLeast("18.20.8", [20, 19])).toBe(false);
});

const wanted = {
  "": {},
  "packages/ir": { version: "0.1.0" },
  "node_modules/@tilewright/ir": { link: true },
  "node_modules/zod": { version: "4.6.7" },
  "node_modules/other-platform": { version: "1.0.0", optional: true },
};

test("an install is complete when every package is there in the locked version", () => {
  const { "node_modules/other-platform": _, ...present } = wanted;
  expect(isInstalled(wanted, present)).toBe(true);
  expect(isInstalled(wanted, { ...present, "node_modules/zod": { version: "4.6.6" } })).toBe(false);
  const { "node_modules/@tilewright/ir": __, ...unlinked } = present;
  expect(isInstalled(wanted, unlinked)).toBe(false);
});

test("no record of an install (never made, or interrupted) is no install", () => {
  expect(isInstalled(wanted, undefined)).toBe(false);
});

test("the user's Node is found behind the one that npm put first", () => {
  expect(realpathSync(systemNode())).not.toContain("node_modules");
});
