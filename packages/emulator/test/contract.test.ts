/** What ptxas makes of products and sums without a rounding; the expectations are its machine code's (13.0, sm_90). */
import { createHash } from "node:crypto";
import { readFileSync } from "node:fs";
import { describe, expect, it } from "vitest";
import { createEmulator } from "../src/index.ts";

const names = "abcdefgh";
const { fround } = Math;
// Products of these need more than 24 bits, so that an fma is told from two roundings.
const inputs = Array.from({ length: 8 }, (_, k) => fround(Math.sqrt(k + 2) * (k % 2 === 0 ? 1 : -1)));
const [a = 0, b = 0, c = 0, d = 0, e = 0] = inputs;
/** Exact here: products of two f32 are doubles, and no sum below is near a tie. */
const fma = (x: number, y: number, z: number): number => fround(x * y + z);

/** What the registers of `outputs` hold after `body`, of a kernel that has a to h in registers of their names. */
function run(body: string, outputs: string, fmad = true): readonly number[] {
  const out = outputs.split(" ");
  const ptx = `.version 8.3
.target sm_90
.address_size 64
.visible .entry k(.param .u64 p, .param .u64 q, .param .u32 n)
{
  .reg .f32 %t<20>; .reg .f32 ${[...names].map((x) => `%${x}`).join(", ")};
  .reg .pred %p<3>; .reg .b64 %rd<3>; .reg .b32 %r<4>;
  ld.param.u64 %rd1, [p]; ld.param.u64 %rd2, [q]; ld.param.u32 %r1, [n]; setp.gt.u32 %p1, %r1, 3;
  ${[...names].map((x, k) => `ld.global.f32 %${x}, [%rd1+${4 * k}];`).join(" ")}
  ${body}
  ${out.map((x, k) => `st.global.f32 [%rd2+${4 * k}], %${x};`).join(" ")}
  ret;
}`;
  const device = createEmulator({ fmad });
  const module = device.load(ptx);
  if (!module.ok) throw new Error(JSON.stringify(module.error));
  const [from, to] = [device.alloc(64), device.alloc(64)];
  if (!from.ok || !to.ok) throw new Error("no memory");
  device.write(from.value, new Uint8Array(new Float32Array(inputs).buffer));
  const done = device.launch(module.value, "k", {
    grid: [1, 1, 1],
    block: [1, 1, 1],
    params: [from.value, to.value, 4],
  });
  if (!done.ok) throw new Error(JSON.stringify(done.error));
  expect(done.value.findings).toEqual([]);
  return [...new Float32Array(device.read(to.value, 4 * out.length).slice().buffer)];
}

const ab = "mul.f32 %t0, %a, %b;";
const cd = "mul.f32 %t1, %c, %d;";
const product = fround(a * b);

describe("contraction", () => {
  it.each<[what: string, body: string, outputs: string, values: readonly number[]]>([
    ["a sum takes a product in", `${ab} add.f32 %t1, %t0, %c;`, "t1", [fma(a, b, c)]],
    [
      "all sums of one product",
      `${ab} add.f32 %t1, %t0, %c; sub.f32 %t2, %d, %t0;`,
      "t1 t2",
      [fma(a, b, c), fma(-a, b, d)],
    ],
    ["not of one that is stored", `${ab} add.f32 %t1, %t0, %c;`, "t1 t0", [fround(product + c), product]],
    [
      "nor of one that is multiplied",
      `${ab} add.f32 %t1, %t0, %c; mul.f32 %t2, %t0, %d;`,
      "t1 t2",
      [fround(product + c), fround(product * d)],
    ],
    [
      "a result that nobody reads is no use",
      `${ab} add.f32 %t1, %t0, %c; max.f32 %t2, %t0, %d;`,
      "t1",
      [fma(a, b, c)],
    ],
    ["the first of two products", `${ab} ${cd} add.f32 %t2, %t1, %t0;`, "t2", [fma(c, d, product)]],
    [
      "the one with one use",
      `${ab} ${cd} add.f32 %t2, %t0, %t1; sub.f32 %t3, %e, %t0;`,
      "t2 t3",
      [fma(c, d, product), fround(e - product)],
    ],
    [
      "not with a rounding",
      `mul.rn.f32 %t0, %a, %b; add.f32 %t3, %t0, %c; ${cd} add.rn.f32 %t2, %t1, %e;`,
      "t3 t2",
      [fround(product + c), fround(fround(c * d) + e)],
    ],
    ["not across flushing", `mul.ftz.f32 %t0, %a, %b; add.f32 %t1, %t0, %c;`, "t1", [fround(product + c)]],
    [
      "through moves and signs",
      `${ab} neg.f32 %t2, %t0; mov.f32 %t3, %t2; sub.f32 %t1, %t3, %c;`,
      "t1",
      [fma(-a, b, -c)],
    ],
    [
      "not through abs",
      `${ab} abs.f32 %t2, %t0; add.f32 %t1, %t2, %c;`,
      "t1",
      [fround(Math.abs(product) + c)],
    ],
    ["a sum under a guard", `${ab} mov.f32 %t1, %d; @%p1 add.f32 %t1, %t0, %c;`, "t1", [fma(a, b, c)]],
    [
      "no product under a guard",
      `mov.f32 %t0, %d; @%p1 mul.f32 %t0, %a, %b; add.f32 %t1, %t0, %c;`,
      "t1",
      [fround(product + c)],
    ],
    [
      "not across a branch",
      `${ab} mov.f32 %t1, %d; @!%p1 bra L; add.f32 %t1, %t0, %c;\nL:`,
      "t1",
      [fround(product + c)],
    ],
    [
      "not across what is branched around",
      `${ab} mov.f32 %t2, %d; @!%p1 st.global.f32 [%rd2+40], %c; add.f32 %t1, %t0, %c;`,
      "t1",
      [fround(product + c)],
    ],
    [
      "not across a division with a slow path",
      `${ab} div.rn.f32 %t2, %d, %e; add.f32 %t1, %t0, %c;`,
      "t1 t2",
      [fround(product + c), fround(d / e)],
    ],
    [
      "across one without",
      `${ab} div.full.f32 %t2, %d, 0f40000000; add.f32 %t1, %t0, %c;`,
      "t1 t2",
      [fma(a, b, c), d / 2],
    ],
    [
      "neg.ftz is a sum of its own",
      "mul.ftz.f32 %t0, %a, %b; neg.ftz.f32 %t1, %t0; add.ftz.f32 %t2, %c, %t1; mul.rn.ftz.f32 %t3, %t1, %e;",
      "t2 t3",
      [fma(-a, b, c), fround(-product * e)],
    ],
    ["across a barrier", `${ab} bar.sync 0; add.f32 %t1, %t0, %c;`, "t1", [fma(a, b, c)]],
    ["factors overwritten since", `${ab} mov.f32 %a, %d; add.f32 %t1, %t0, %c;`, "t1 a", [fma(a, b, c), d]],
    [
      "one register for all",
      `${ab} add.f32 %t0, %t0, %c; mul.f32 %t0, %t0, %d; add.f32 %t0, %t0, %e;`,
      "t0",
      [fma(fma(a, b, c), d, e)],
    ],
    [
      "a quotient by a number is a product with its reciprocal, rounded to nearest",
      "mov.b32 %r2, 0f437F0000; mov.b32 %t2, %r2; div.full.f32 %t0, %a, %t2; add.f32 %t1, %t0, %c;",
      "t1",
      [fma(a, fround(1 / 255), c)],
    ],
  ])("%s", (_what, body, outputs, values) => {
    expect(run(body, outputs)).toEqual(values);
  });

  it("is left out by fmad: false", () => {
    expect(run(`${ab} add.f32 %t1, %t0, %c;`, "t1", false)).toEqual([fround(product + c)]);
  });

  it("gives another number in each of these", () => {
    expect([fma(a, b, c), fma(-a, b, d), fma(c, d, product)]).not.toEqual([
      fround(product + c),
      fround(d - product),
      fround(fround(c * d) + product),
    ]);
  });
});

/** Random programs, assembled by ptxas 13.0 and run on an H200 by 64 threads: eight inputs a thread, and the SHA-256 of 32 outputs. */
const golden = JSON.parse(
  readFileSync(new URL("golden/contract-h200.json", import.meta.url), "utf8"),
) as readonly {
  readonly name: string;
  readonly ptx: string;
  readonly input: string;
  readonly sha256: string;
}[];

describe("random programs", () => {
  it.each(golden)("$name has an H200's bits", ({ ptx, input, sha256 }) => {
    const device = createEmulator();
    const module = device.load(ptx);
    if (!module.ok) throw new Error(JSON.stringify(module.error));
    const data = Uint8Array.from(Buffer.from(input, "base64"));
    const [from, to] = [device.alloc(data.length), device.alloc(4 * data.length)];
    if (!from.ok || !to.ok) throw new Error("no memory");
    device.write(from.value, data);
    device.write(to.value, new Uint8Array(4 * data.length));
    const done = device.launch(module.value, "k", {
      grid: [1, 1, 1],
      block: [64, 1, 1],
      params: [from.value, to.value],
    });
    expect(done.ok && done.value.completed).toBe(true);
    expect(
      createHash("sha256")
        .update(device.read(to.value, 4 * data.length))
        .digest("hex"),
    ).toBe(sha256);
  });
});
