import { spawnSync } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync, statSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, expect, test } from "vitest";
import { tarOf } from "./tar.mjs";

const made: string[] = [];
afterEach(() => {
  for (const dir of made.splice(0)) rmSync(dir, { recursive: true, force: true });
});

const bytes = (length: number) => Uint8Array.from({ length }, (_, i) => i % 251);
const long = `${"folder/".repeat(20)}a-file-behind-many-folders.js`;
const files = [
  { path: "top/run", data: bytes(1), executable: true },
  { path: "top/empty", data: bytes(0) },
  { path: "top/sub/one-block", data: bytes(512) },
  { path: "top/sub/more", data: bytes(70_001) },
  { path: long, data: bytes(10) },
];
const hasTar = spawnSync("tar", ["--version"]).status === 0;

test.skipIf(!hasTar)("tar unpacks every file with its bytes and its mode", () => {
  const dir = mkdtempSync(join(tmpdir(), "tilewright-tar-"));
  made.push(dir);
  writeFileSync(join(dir, "x.tar"), tarOf(files));
  const { status, stderr } = spawnSync("tar", ["xpf", "x.tar"], { cwd: dir, encoding: "utf8" });
  expect(stderr).toBe("");
  expect(status).toBe(0);
  for (const { path, data, executable } of files) {
    expect(new Uint8Array(readFileSync(join(dir, path))), path).toEqual(data);
    expect(statSync(join(dir, path)).mode & 0o777, path).toBe(executable ? 0o755 : 0o644);
  }
  expect(statSync(join(dir, "top/sub")).mode & 0o777).toBe(0o755);
});

test("the bytes depend on the files, not on their order or the time", () => {
  expect(tarOf([...files].reverse()).equals(tarOf(files))).toBe(true);
  // Owner and time of the first entry: zeros, wherever and whenever it is made.
  expect(tarOf(files).toString("latin1", 108, 148)).toMatch(/^0+\0[0]+\0\d+\0[0]+\0$/);
});

test("what ustar cannot hold is an error", () => {
  const one = { path: "a/b", data: bytes(1) };
  expect(() => tarOf([one, one])).toThrow("two files are named a/b");
  expect(() => tarOf([{ path: "x".repeat(101), data: bytes(1) }])).toThrow("too long");
  expect(() => tarOf([{ path: `${"folder/".repeat(40)}x`, data: bytes(1) }])).toThrow("too long");
});
