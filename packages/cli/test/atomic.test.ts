import { mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { writeFiles } from "../src/files/atomic.ts";
import { scratch } from "./scratch.ts";

test("folders are made, files replaced, nothing else stays", () => {
  using folder = scratch();
  writeFileSync(join(folder.path, "old.txt"), "old");
  const files = [
    { path: "old.txt", data: "new" },
    { path: "a/b/c.bin", data: Uint8Array.of(1, 2) },
  ];
  expect(writeFiles(folder.path, files)).toEqual({ ok: true, value: ["old.txt", "a/b/c.bin"] });
  expect(folder.list()).toEqual(["a", "a/b", "a/b/c.bin", "old.txt"]);
  expect(readFileSync(join(folder.path, "old.txt"), "utf8")).toBe("new");
});

test("one file that cannot be written: none is, and folders made for them go", () => {
  using folder = scratch();
  mkdirSync(join(folder.path, "taken"));
  const files = [
    { path: "new/fine.txt", data: "x" },
    { path: "taken", data: "y" },
  ];
  expect(writeFiles(folder.path, files)).toMatchObject({
    ok: false,
    error: [{ code: "TW7011", at: "taken" }],
  });
  expect(folder.list()).toEqual(["taken"]);
});

test("what was there stays when writing fails", () => {
  using folder = scratch();
  writeFileSync(join(folder.path, "keep.txt"), "old");
  const files = [
    { path: "keep.txt", data: "new" },
    { path: "keep.txt/below.txt", data: "y" },
  ];
  expect(writeFiles(folder.path, files).ok).toBe(false);
  expect(readFileSync(join(folder.path, "keep.txt"), "utf8")).toBe("old");
  expect(folder.list()).toEqual(["keep.txt"]);
});
