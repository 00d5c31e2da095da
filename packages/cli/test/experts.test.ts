/** A mixture of experts: what `run` checks and refuses, and what kernels make of int32 in device memory that no host has looked at. */
import { decodeArray, defineProblem, encodeArray, expertRowsOf, findTarget } from "@tilewright/core";
import { launchKernel, openDevice } from "@tilewright/runtime";
import { describe, expect, test } from "vitest";
import { compiler } from "../src/compiler.ts";
import { cli } from "./harness.ts";

const bytesOf = (array: Float64Array): Uint8Array => {
  const { buffer, byteOffset, byteLength } = encodeArray("bf16", array) as Uint16Array;
  return new Uint8Array(buffer, byteOffset, byteLength);
};
const small = (length: number, step: number) => Float64Array.from({ length }, (_, i) => ((i * step) % 7) - 3);

/** D of a launch with such int32 in device memory, null where nothing was written; and what the emulator found. All sums are small integers, which bf16 holds. */
async function launch(
  arch: string,
  request: Parameters<typeof defineProblem>[0] & { readonly experts: number },
  rows: readonly number[],
  order: "eager" | "lazy" | "random" = "eager",
  index: readonly (readonly number[])[] = [],
) {
  const [problem, target] = [defineProblem(request), findTarget(arch)];
  if (!problem.ok || !target.ok) throw new TypeError("a problem and a target");
  const made = compiler.compile({ problem: problem.value, target: target.value });
  const device = await openDevice({ kind: "emulator", arch, numSms: 2 });
  if (!made.ok || !device.ok) throw new TypeError("a kernel and a device");
  const { m, n, k, batch } = problem.value;
  const experts = request.experts;
  const all = expertRowsOf(problem.value) === "counts" ? experts * m : m;
  const [a, b] = [small(all * k, 3), small(experts * n * k, 5)];
  const buffer = (bytes: number, data?: Uint8Array) => {
    const made = device.value.alloc(bytes);
    if (!made.ok) throw new TypeError("memory");
    if (data) made.value.write(data);
    else made.value.fill(0xff);
    return made.value;
  };
  const d = buffer(all * n * 2);
  const groups = new Uint8Array(Int32Array.from(rows).buffer);
  const [kernel] = made.value.manifest.kernels;
  if (kernel === undefined || batch.kind !== "grouped") throw new TypeError("a kernel of experts");
  const buffers = {
    a: buffer(all * k * 2, bytesOf(a)),
    b: buffer(experts * n * k * 2, bytesOf(b)),
    d,
    groups: buffer(groups.byteLength, groups),
    workspace: buffer(1 << 16),
    ...Object.fromEntries(
      index.map((each, i) => [`epilogue${i}`, buffer(4 * m, new Uint8Array(Int32Array.from(each).buffer))]),
    ),
  };
  const env = { m, n, k, batch: experts, numSms: 2 };
  const ran = launchKernel(device.value, kernel, made.value.ptx, env, buffers, { order });
  if (!ran.ok) throw new TypeError(ran.error.map(({ message }) => message).join());
  const bytes = d.read();
  if (!bytes.ok) throw new TypeError("D");
  const words = new Uint16Array(bytes.value.slice().buffer);
  const values = decodeArray("bf16", words, words.length);
  const right = (row: number, g: number) =>
    Array.from({ length: n }, (_, j) =>
      Array.from({ length: k }, (_, i) => (a[row * k + i] ?? 0) * (b[(g * n + j) * k + i] ?? 0)).reduce(
        (sum, each) => sum + each,
        0,
      ),
    );
  return {
    rules: [...new Set(ran.value.findings.map(({ rule }) => rule))],
    completed: ran.value.completed,
    /** Experts whose product of a row of A a row of D is; `null`: nothing was written there. */
    row(index: number, of: readonly number[], from = index): readonly number[] | null {
      if (words.subarray(index * n, (index + 1) * n).every((word) => word === 0xffff)) return null;
      const got = Array.from(values.subarray(index * n, (index + 1) * n));
      return of.filter((g) => right(from, g).every((value, j) => value === got[j]));
    },
  };
}

const base = { dtype: "bf16", d: { dtype: "bf16" }, b: { layout: "col" }, n: 16, k: 16 } as const;

describe.each(["sm_80", "sm_90a", "sm_100a"])("%s: int32 that no host has checked", (arch) => {
  test.each(["eager", "lazy", "random"] as const)("offsets beyond the rows, %s", async (order) => {
    const { row, rules, completed } = await launch(
      arch,
      { ...base, m: 20, experts: 4 },
      [-5, 7, 900, 21],
      order,
    );
    expect([rules, completed]).toEqual([[], true]);
    for (let r = 0; r < 20; r++) expect([r, row(r, [1, 2])]).toEqual([r, [r < 7 ? 1 : 2]]);
  });

  test.each(["eager", "lazy", "random"] as const)("counts beyond the rows, %s", async (order) => {
    const request = { ...base, m: 10, experts: 3, expertRows: "counts" } as const;
    const { row, rules, completed } = await launch(arch, request, [11, -1, 3], order);
    expect([rules, completed]).toEqual([[], true]);
    const owner = (r: number) => (r < 10 ? [0] : r >= 20 && r < 23 ? [2] : null);
    for (let r = 0; r < 30; r++) expect([r, row(r, [0, 1, 2])]).toEqual([r, owner(r)]);
  });

  test("offsets that no promised divisor divides, rounded down to it", async () => {
    const request = { ...base, m: 20, experts: 4, symbolic: { m: { multiple: 4 } } };
    const { row, rules, completed } = await launch(arch, request, [6, 11, 18, 19]);
    expect([rules, completed]).toEqual([[], true]);
    const owner = (r: number) => (r < 4 ? [0] : r < 8 ? [1] : r < 16 ? [2] : null);
    for (let r = 0; r < 20; r++) expect([r, row(r, [0, 1, 2])]).toEqual([r, owner(r)]);
  });

  test("offsets that decrease: an empty expert, and a row that two have is that of one of them", async () => {
    const { row, rules, completed } = await launch(arch, { ...base, m: 20, experts: 3 }, [9, 4, 12]);
    // Two CTAs write the same places, and nothing else is wrong.
    expect([rules.filter((rule) => rule !== "H094" && rule !== "H097"), completed]).toEqual([[], true]);
    for (let r = 0; r < 20; r++) {
      const owners = row(r, [0, 1, 2]);
      if (r >= 12) expect(owners).toBeNull();
      else
        expect([r, r < 4 ? [0] : r < 9 ? [0, 2] : [2]]).toEqual([
          r,
          expect.arrayContaining([...(owners ?? [-1])]),
        ]);
    }
  });

  test("indices that name no rows: the last row of A, no row of D", async () => {
    const request = { ...base, m: 20, experts: 3, gather: 20, scatter: 22 };
    const gather = [3, -1, 20, 2 ** 30, ...Array.from({ length: 16 }, (_, i) => 19 - i)];
    const scatter = [5, 4, 3, 2, -1, 22, -(2 ** 31), ...Array.from({ length: 13 }, (_, i) => i + 7)];
    const { row, rules, completed } = await launch(arch, request, [6, 6, 22], "random", [gather, scatter]);
    expect([rules, completed]).toEqual([[], true]);
    for (let r = 0; r < 20; r++) {
      const i = scatter.indexOf(r);
      const named = gather[i] ?? 0;
      const from = named < 0 || named > 19 ? 19 : named;
      expect([r, row(r, [0, 2], from)]).toEqual([r, i < 0 ? null : [i < 6 ? 0 : 2]]);
    }
  });

  test("two thousand experts, most of them empty", async () => {
    const ends = Array.from({ length: 2000 }, (_, g) => (g < 700 ? 0 : g < 1990 ? 3 : g - 1986));
    const { row, rules, completed } = await launch(arch, { ...base, m: 20, experts: 2000 }, ends);
    expect([rules, completed]).toEqual([[], true]);
    for (let r = 0; r < 20; r++) {
      const owner = ends.findIndex((end) => end > r);
      expect([r, row(r, [owner])]).toEqual([r, owner < 0 ? null : [owner]]);
    }
  });
});

/** Sums over rows that int32 tell apart, [experts, 16, 16] in f32: what none writes is NaN. */
async function launchSums(arch: string, rows: readonly number[], k: number) {
  const sizes = { m: 16, n: 16, k, experts: rows.length };
  const types = { dtype: "bf16", a: { layout: "col" }, d: { dtype: "f32" }, beta: 1 } as const;
  const [problem, target] = [defineProblem({ ...sizes, ...types, expertAxis: "k" }), findTarget(arch)];
  if (!problem.ok || !target.ok) throw new TypeError("a problem and a target");
  const made = compiler.compile({ problem: problem.value, target: target.value });
  const device = await openDevice({ kind: "emulator", arch, numSms: 2 });
  if (!made.ok || !device.ok) throw new TypeError("a kernel and a device");
  const [a, b] = [small(16 * k, 3), small(16 * k, 5)];
  const c = Float32Array.from({ length: rows.length * 256 }, (_, i) => (i % 5) - 2);
  const buffer = (data: Uint8Array) => {
    const made = device.value.alloc(data.byteLength);
    if (!made.ok) throw new TypeError("memory");
    made.value.write(data);
    return made.value;
  };
  const d = buffer(new Uint8Array(c.byteLength).fill(0xff));
  const buffers = {
    ...{ a: buffer(bytesOf(a)), b: buffer(bytesOf(b)), c: buffer(new Uint8Array(c.buffer)), d },
    groups: buffer(new Uint8Array(Int32Array.from(rows).buffer)),
    workspace: buffer(new Uint8Array(1 << 16)),
  };
  const [kernel] = made.value.manifest.kernels;
  if (kernel === undefined) throw new TypeError("a kernel of experts");
  const env = { ...sizes, batch: rows.length, numSms: 2 };
  const ran = launchKernel(device.value, kernel, made.value.ptx, env, buffers, { order: "random" });
  const bytes = d.read();
  if (!ran.ok || !bytes.ok) throw new TypeError("a launch");
  const got = new Float32Array(bytes.value.slice().buffer);
  /** Elements of an expert's D that are not C and the sum over such rows. */
  const wrong = (g: number, from: number, to: number): number =>
    Array.from({ length: 256 }, (_, i) => {
      let sum = c[g * 256 + i] ?? 0;
      for (let r = from; r < to; r++) sum += (a[r * 16 + (i >> 4)] ?? 0) * (b[r * 16 + (i & 15)] ?? 0);
      return sum === got[g * 256 + i] ? 0 : 1;
    }).reduce<number>((all, one) => all + one, 0);
  return { wrong, rules: ran.value.findings.map(({ rule }) => rule), completed: ran.value.completed };
}

describe.each(["sm_80", "sm_90a"])("%s: sums over rows whose int32 no host has checked", (arch) => {
  test("offsets that are negative, beyond the rows, and decrease", async () => {
    const { wrong, rules, completed } = await launchSums(arch, [-5, 7, 900, 21, 18], 20);
    expect([rules, completed]).toEqual([[], true]);
    const sums = [
      [0, 0],
      [0, 7],
      [7, 20],
      [20, 20],
      [20, 18],
    ] as const;
    expect(sums.map(([from, to], g) => wrong(g, from, to))).toEqual([0, 0, 0, 0, 0]);
  });

  test("a thousand experts, most of them empty: C stays", async () => {
    const ends = Array.from({ length: 1000 }, (_, g) => (g < 700 ? 0 : g < 990 ? 3 : g - 986));
    const { wrong, rules, completed } = await launchSums(arch, ends, 14);
    expect([rules, completed]).toEqual([[], true]);
    const all = ends.map((end, g) => wrong(g, ends[g - 1] ?? 0, end));
    expect(all.reduce((sum, each) => sum + each, 0)).toBe(0);
  });
});

describe("run", () => {
  const words = "run --device emulator --arch sm_80 --experts 4 -m 40 -n 24 -k 16 --dtype bf16";

  test.each([
    "--rows 11,11,12,40 --order all",
    "--rows 40,0,3,1 --expert-rows counts",
    "--seed 3",
    "--op ffn --b-layout col --rows 0,0,0,33",
    "--gather 9 --scatter 64 --rows 11,11,12,40 --epilogue acc*w[m] --order all",
    "--gather 9 --scatter-add 7 --rows 11,11,12,40 --d-dtype f32 --epilogue acc*w[m] --order all",
    "--gather 2 --rows 0,2,2,3 --gather-rows 1,1,0",
    "--expert-axis k --a-layout col --rows 3,3,10,16 --order all",
    "--expert-axis k --b-layout col --rows 3,3,10,16",
    "--expert-axis k --expert-rows counts --b-layout col --d-layout col --rows 16,0,3,1",
  ])("%s", async (flags) => {
    const { code, stdout } = await cli(`${words} --json ${flags}`);
    expect([code, JSON.parse(stdout).ok]).toEqual([0, true]);
  });

  test("rows that cannot be, all at once", async () => {
    const { code, stderr } = await cli(`${words} --rows 11,9,41`);
    expect(code).toBe(2);
    for (const what of [
      "3 offsets for 4 experts",
      "9 is less than the offset before it, 11",
      "41 is no number of rows from 0 to 40",
    ])
      expect(stderr).toContain(what);
  });

  test("rows that an index cannot name, all at once", async () => {
    const { code, stderr } = await cli(
      `${words} --gather 3 --scatter 40 --rows 0,2,2,3 --gather-rows 3,0,-1 --scatter-rows 4,4`,
    );
    expect(code).toBe(2);
    for (const what of ["3 is no row of A from 0 to 2", "-1 is no row of A", "2 of 3 rows of experts"])
      expect(stderr).toContain(what);
    const twice = await cli(`${words} --scatter 40 --rows 0,2,2,3 --scatter-rows 4,7,4 --gather-rows 1`);
    for (const what of ["row 4 of D is that of row 0, too", "--gather-rows: are those of an index"])
      expect(twice.stderr).toContain(what);
  });

  test("rows that are added: D is read and written, and no order is asked for", async () => {
    const request = {
      m: 8,
      n: 16,
      k: 16,
      dtype: "bf16",
      d: { dtype: "f32" },
      experts: 2,
      scatterAdd: 5,
    } as const;
    const [problem, target] = [defineProblem(request), findTarget("sm_80")];
    if (!problem.ok || !target.ok) throw new TypeError("a problem and a target");
    const made = compiler.compile({ problem: problem.value, target: target.value });
    const params = made.ok ? made.value.manifest.kernels[0]?.params : [];
    expect(params?.find(({ name }) => name === "d")).toMatchObject({ access: "readwrite" });
    const flags = "--arch sm_80 -m 8 -n 16 -k 16 --dtype bf16 --experts 2 --scatter-add 5";
    const asked = await cli(`compile ${flags} --d-dtype f32 --deterministic`);
    expect([asked.code, asked.stderr]).toEqual([3, expect.stringMatching(/TW1905.*problem\.scatterAdd/)]);
    const bf16 = await cli(`compile ${flags}`);
    expect([bf16.code, bf16.stderr]).toEqual([3, expect.stringMatching(/TW1817.*sm_80 adds no bf16/)]);
  });

  test("a problem that cannot be, all at once", async () => {
    const { code, stderr } = await cli(
      `${words} --batch 3 --a-layout col --d-layout col --symbolic k --epilogue reduce(amax,n,f32)`,
    );
    expect(code).toBe(2);
    expect(stderr.match(/(?<=TW1020 \(invalid\) at )\S+(?=:)/g)).toEqual([
      "experts",
      "symbolic",
      "a.layout",
      "d.layout",
      "epilogue[0]",
    ]);
    expect((await cli("run --arch sm_80 -m 4 -n 4 -k 4 --rows 3")).stderr).toMatch(/TW7005.*--rows/);
    const sums = await cli(`${words} --expert-axis k --gather 4 --rows 3,2,17,16`);
    expect([sums.code, sums.stderr]).toEqual([2, expect.stringMatching(/TW1020 \(invalid\) at gather/)]);
    const past = await cli(`${words} --expert-axis k --rows 3,2,17,16`);
    expect([past.code, past.stderr]).toEqual([
      2,
      expect.stringContaining("k is 16: the rows that there are"),
    ]);
  });
});
