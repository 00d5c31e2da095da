import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { encodeArray } from "@tilewright/core";
import { describe, expect, test } from "vitest";
import { loadTensor } from "../src/files/load.ts";
import { encodeNpy } from "../src/files/npy.ts";
import { cli, contextIn, type Outcome } from "./harness.ts";
import { scratch } from "./scratch.ts";

/** y[i] = a * x[i] + y[i] for i < n, one element a thread. */
const saxpy = `
.version 6.0
.target sm_70
.address_size 64
.visible .entry saxpy(.param .u64 x, .param .u64 y, .param .f32 a, .param .u32 n)
{
  .reg .pred %p<2>;
  .reg .b32 %r<6>;
  .reg .f32 %f<5>;
  .reg .b64 %rd<8>;
  mov.u32 %r1, %ctaid.x;
  mov.u32 %r2, %ntid.x;
  mov.u32 %r3, %tid.x;
  mad.lo.s32 %r4, %r1, %r2, %r3;
  ld.param.u32 %r5, [n];
  setp.ge.u32 %p1, %r4, %r5;
  @%p1 bra DONE;
  ld.param.u64 %rd1, [x];
  ld.param.u64 %rd2, [y];
  ld.param.f32 %f1, [a];
  cvta.to.global.u64 %rd3, %rd1;
  cvta.to.global.u64 %rd4, %rd2;
  mul.wide.u32 %rd5, %r4, 4;
  add.s64 %rd6, %rd3, %rd5;
  add.s64 %rd7, %rd4, %rd5;
  ld.global.f32 %f2, [%rd6];
  ld.global.f32 %f3, [%rd7];
  fma.rn.f32 %f4, %f1, %f2, %f3;
  st.global.f32 [%rd7], %f4;
DONE:
  ret;
}
`;

/** Every thread stores to shared memory and reads what the thread 33 on stored, with or without a barrier between. */
const rotate = (barrier: string) => `
.version 6.0
.target sm_70
.address_size 64
.visible .entry rotate(.param .u64 out)
{
  .shared .align 4 .b8 tile[256];
  .reg .b32 %r<10>;
  .reg .b64 %rd<5>;
  mov.u32 %r1, %tid.x;
  mov.u32 %r2, tile;
  shl.b32 %r3, %r1, 2;
  add.s32 %r4, %r2, %r3;
  st.shared.u32 [%r4], %r1;
  ${barrier}
  add.s32 %r5, %r1, 33;
  and.b32 %r6, %r5, 63;
  shl.b32 %r7, %r6, 2;
  add.s32 %r8, %r2, %r7;
  ld.shared.u32 %r9, [%r8];
  ld.param.u64 %rd1, [out];
  cvta.to.global.u64 %rd2, %rd1;
  mul.wide.u32 %rd3, %r1, 4;
  add.s64 %rd4, %rd2, %rd3;
  st.global.u32 [%rd4], %r9;
  ret;
}
`;

const count = 100;
const x = Array.from({ length: count }, (_, i) => i / 8);
const y = Array.from({ length: count }, (_, i) => 50 - i);
const vector = (values: readonly number[]) => encodeNpy([values.length], "f32", encodeArray("f32", values));

interface Setup {
  readonly ptx: string;
  readonly launch: unknown;
  readonly flags?: string;
}

async function emulate(
  { ptx, launch, flags = "" }: Setup,
  then?: (folder: string) => void,
): Promise<Outcome> {
  using folder = scratch();
  writeFileSync(join(folder.path, "kernel.ptx"), ptx);
  writeFileSync(join(folder.path, "launch.json"), JSON.stringify(launch));
  writeFileSync(join(folder.path, "x.npy"), vector(x));
  writeFileSync(join(folder.path, "y.npy"), vector(y));
  writeFileSync(join(folder.path, "want.npy"), vector(x.map((value, i) => 2 * value + (y[i] ?? 0))));
  const outcome = await cli(`emulate kernel.ptx --launch launch.json ${flags}`, { cwd: folder.path });
  then?.(folder.path);
  return outcome;
}

const launch = {
  entry: "saxpy",
  grid: 4,
  block: [32],
  buffers: { x: { fill: { file: "x.npy" } }, y: { fill: { file: "y.npy" } } },
  params: [{ buffer: "x" }, { buffer: "y" }, 2, count],
  outputs: { y: "out.npy" },
  expected: { y: { file: "want.npy" } },
};

describe("a kernel that is right", () => {
  test("in every order: numbers as expected, results written", async () => {
    const outcome = await emulate({ ptx: saxpy, launch, flags: "--order all --json" }, (folder) => {
      const out = loadTensor(contextIn(folder), "out.npy");
      expect(out).toMatchObject({ ok: true, value: { shape: [count], dtype: "f32" } });
      expect(out.ok && [...out.value.data]).toEqual(x.map((value, i) => 2 * value + (y[i] ?? 0)));
    });
    const result = JSON.parse(outcome.stdout);
    expect([outcome.code, outcome.stderr]).toEqual([0, ""]);
    expect(result).toMatchObject({
      ok: true,
      entry: "saxpy",
      arch: "sm_70",
      findings: [],
      files: ["out.npy"],
    });
    expect(result.runs.map((run: { order: string }) => run.order)).toEqual(["eager", "lazy", "random"]);
    expect(result.runs[0]).toMatchObject({
      completed: true,
      checks: [{ buffer: "y", elements: count, failures: 0, maxAbs: 0 }],
    });
    expect(result.runs[0].counters.globalBytesRead).toBe(2 * 4 * count);
  });

  test("--trace writes a timeline of the first run, in each of whose lines a CTA has its warps", async () => {
    const outcome = await emulate(
      { ptx: saxpy, launch, flags: "--order all --trace t.json --json" },
      (folder) => {
        const { traceEvents } = JSON.parse(readFileSync(join(folder, "t.json"), "utf8"));
        const named = (ph: string, name: string) =>
          traceEvents.filter((event: { ph: string; name: string }) => event.ph === ph && event.name === name);
        expect(named("M", "process_name").map(({ args }: { args: { name: string } }) => args.name)).toEqual(
          [0, 1, 2, 3].map((x) => `CTA ${x},0,0`),
        );
        expect(named("X", "1 store")).toHaveLength(4);
      },
    );
    expect(JSON.parse(outcome.stdout).files).toEqual(["out.npy", "t.json"]);
  });

  test("--trace with several runs is of the first that shows a hazard", async () => {
    const racing = {
      entry: "rotate",
      grid: 1,
      block: 64,
      buffers: { out: { bytes: 256 } },
      params: [{ buffer: "out" }],
    };
    await emulate({ ptx: rotate(""), launch: racing, flags: "--order all --trace t.json" }, (folder) => {
      const { traceEvents } = JSON.parse(readFileSync(join(folder, "t.json"), "utf8"));
      const marks = traceEvents.filter(({ cat }: { cat?: string }) => cat === "finding");
      const mark = (ph: string) =>
        marks.find((event: { ph: string; name: string }) => event.ph === ph && event.name === "H009");
      // The read, which is marked, and the write before it, from which an arrow leads to it.
      expect(mark("s").args.line).toBe(mark("f").args.line - 6);
      expect(mark("i").ts).toBe(mark("f").ts);
    });
  });

  test("as text: a table and counters", async () => {
    const { code, stdout } = await emulate({ ptx: saxpy, launch });
    expect(code).toBe(0);
    expect(stdout).toMatch(/^order +completed +hazards +numbers +time\neager +yes +none +as expected /);
    expect(stdout).toContain("wrote out.npy");
  });

  test("random fills: the same seed gives the same bits", async () => {
    const buffers = {
      x: { dtype: "f32", shape: [count], fill: { normal: { seed: 5 } } },
      y: { dtype: "f32", shape: [4, 25], fill: "zeros" },
    };
    const { expected: _, ...rest } = launch;
    const data = async () => {
      let bits: unknown;
      await emulate({ ptx: saxpy, launch: { ...rest, buffers } }, (folder) => {
        const out = loadTensor(contextIn(folder), "out.npy");
        bits = out.ok ? [out.value.shape, ...out.value.data] : out.error;
      });
      return bits;
    };
    const [one, two] = [await data(), await data()];
    expect(one).toEqual(two);
    expect(Array.isArray(one) && [one.length, one[0], new Set(one.slice(1)).size]).toEqual([
      count + 1,
      [4, 25],
      count,
    ]);
  });
});

describe("a kernel that is wrong", () => {
  test("numbers: exit code 5, which element", async () => {
    const { code, stderr, stdout } = await emulate({
      ptx: saxpy.replace("fma.rn.f32 %f4, %f1, %f2, %f3", "fma.rn.f32 %f4, %f1, %f2, %f2"),
      launch,
      flags: "--json",
    });
    expect([code, JSON.parse(stdout).ok]).toEqual([5, false]);
    expect(stderr).toContain("error TW7060 (check) at y: ");
    expect(stderr).toContain("element 0 [0] is 0 where 50 is expected; the farthest, element 99 [99]");
  });

  test("numbers within a tolerance pass", async () => {
    const near = { ...launch, params: [{ buffer: "x" }, { buffer: "y" }, 2.001, count] };
    expect((await emulate({ ptx: saxpy, launch: near })).code).toBe(5);
    expect(
      (await emulate({ ptx: saxpy, launch: { ...near, expected: { y: { file: "want.npy", abs: 0.02 } } } }))
        .code,
    ).toBe(0);
  });

  test("out of bounds: exit code 5, with the instruction and its line", async () => {
    const { code, stderr } = await emulate({
      ptx: saxpy,
      launch: { ...launch, params: [{ buffer: "x" }, { buffer: "y" }, 2, 128] },
    });
    expect(code).toBe(5);
    expect(stderr).toMatch(/error kernel\.ptx:\d+:\d+: TW7061 \(check\) at H\d+: .*ld\.global\.f32/);
  });

  test("reading what nobody wrote", async () => {
    const buffers = { ...launch.buffers, y: { dtype: "f32", shape: [count] } };
    const { code, stderr } = await emulate({ ptx: saxpy, launch: { ...launch, buffers } });
    expect(code).toBe(5);
    expect(stderr).toMatch(/TW7061 \(check\) at H\d+: .*uninitialised|TW7061 \(check\) at H\d+: .*written/);
  });

  const rotation = {
    entry: "rotate",
    grid: 1,
    block: 64,
    buffers: { out: { dtype: "s32", shape: [64] } },
    params: [{ buffer: "out" }],
  };

  test("a race that a barrier prevents", async () => {
    expect(
      await emulate({ ptx: rotate("bar.sync 0;"), launch: rotation, flags: "--order all" }),
    ).toMatchObject({ code: 0, stderr: "" });
    const { code, stderr } = await emulate({
      ptx: rotate(""),
      launch: rotation,
      flags: "--order random --seed 4",
    });
    expect(code).toBe(5);
    expect(stderr).toMatch(/TW7061 \(check\) at H\d+: .*shared/);
  });

  test("a buffer that the grid before still writes is read too early", async () => {
    const early = { launch: { ...launch, before: { entry: "producer", writes: ["x"] } } };
    const { code, stderr } = await emulate({ ptx: saxpy, ...early });
    expect(code).toBe(5);
    expect(stderr).toContain("H099");
    const waiting = saxpy.replace(/(mov\.u32 %r\w*, %tid\.x;)/, "griddepcontrol.wait; $1");
    expect(waiting).not.toBe(saxpy);
    const ptx = waiting
      .replace(/\.target sm_\d+/, ".target sm_90")
      .replace(/\.version \d\.\d/, ".version 8.0");
    expect(await emulate({ ptx, ...early })).toMatchObject({ code: 0, stderr: "" });
  });

  test("--check none looks for nothing, --check picks", async () => {
    const { launch: _, ...racy } = { ptx: rotate(""), launch: rotation };
    expect((await emulate({ ...racy, launch: rotation, flags: "--check none" })).code).toBe(0);
    expect((await emulate({ ...racy, launch: rotation, flags: "--check alignment,bounds" })).code).toBe(0);
    expect((await emulate({ ...racy, launch: rotation, flags: "--check race" })).code).toBe(5);
  });

  test("a launch that never ends is given up", async () => {
    const ptx = saxpy.replace("DONE:\n  ret;", "DONE:\n  bra DONE;");
    const { code, stderr } = await emulate({ ptx, launch: { ...launch, expected: {}, fuel: 10_000 } });
    expect(code).toBe(5);
    expect(stderr).toContain("TW7062 (check)");
  });
});
