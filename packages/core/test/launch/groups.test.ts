/** Tables of groups as bytes, and which group a launch is for. */
import { describe, expect, test } from "vitest";
import {
  type GroupArguments,
  type GroupRow,
  groupConstraints,
  groupTable,
  launchOfGroups,
} from "../../src/index.ts";

const row: GroupRow = {
  bytes: 24,
  fields: [
    { kind: "pointer", name: "d", offset: 8, align: 16, access: "write" },
    { kind: "size", name: "m", offset: 0, value: "m" },
    { kind: "size", name: "ldd", offset: 20, value: ["mul", "n", 2] },
  ],
};
const group = (m: number, n: number, d?: bigint): GroupArguments => ({
  env: { m, n, k: 7 },
  addresses: d === undefined ? {} : { d },
});

describe("a table", () => {
  test("has each field at its place, and nothing in rows without work", () => {
    const table = groupTable(row, [group(3, 5, 0x7_0000_0010n), group(0, 5), group(9, 1, 32n)]);
    const view = new DataView(table.ok ? table.value.buffer : new ArrayBuffer(0));
    expect(view.byteLength).toBe(72);
    expect([view.getUint32(0, true), view.getBigUint64(8, true), view.getUint32(20, true)]).toEqual([
      3,
      0x7_0000_0010n,
      10,
    ]);
    expect([24, 32, 44].map((at) => view.getUint32(at, true))).toEqual([0, 0, 0]);
    expect([view.getUint32(48, true), view.getBigUint64(56, true), view.getUint32(68, true)]).toEqual([
      9,
      32n,
      2,
    ]);
  });

  test("names every address that is missing or not aligned", () => {
    expect(groupTable(row, [group(1, 1, 8n), group(1, 1)])).toMatchObject({
      error: [
        { code: "TW1308", at: "groups[0].d", message: "the address of d is not a multiple of 16 B" },
        { code: "TW1308", at: "groups[1].d", message: "the group has no address for d" },
      ],
    });
  });
});

test("conditions hold for each group that has work", () => {
  const envs = [group(3, 5), group(0, 50), group(2, 50)].map(({ env }) => env);
  expect(groupConstraints([["le", "n", 9]], envs)).toMatchObject([{ code: "TW1304", at: "groups[2]" }]);
});

test("the launch is that of the group with the most tiles", () => {
  const launch = {
    grid: [["mul", ["ceilDiv", "m", 4], ["ceilDiv", "n", 4]], 3, 1],
    block: [32, 1, 1],
    cluster: [1, 1, 1],
    dynamicSmem: 0,
    staticSmem: 0,
    cooperative: false,
  } as const;
  const envs = [group(40, 1), group(0, 99), group(8, 24)].map(({ env }) => env);
  expect(launchOfGroups({ launch }, envs)).toBe(envs[2]);
  expect(launchOfGroups({ launch }, [])).toBeNull();
});
