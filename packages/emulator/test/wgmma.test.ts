/** wgmma: every form by meaning, its layouts against CuTe's, its rules, and the bits of a GPU where they are recorded. */
import { createHash } from "node:crypto";
import { decode, encode } from "@tilewright/core";
import { decodeWgmmaDescriptor, encodeWgmmaDescriptor } from "@tilewright/ptx";
import { describe, expect, test } from "vitest";
import { inputClasses } from "./mma-forms.ts";
import { clean, fixture, generator, machine, orders } from "./support.ts";
import { wgmmaAddress } from "./wgmma-address.ts";
import {
  accumulatorAt,
  accumulatorCount,
  buffersOf,
  casesOf,
  casesPerClass,
  descriptorConstant,
  type Elements,
  elementBits,
  kernelOf,
  outputBytes,
  placementOf,
  type Swizzle,
  threads,
  type WgmmaForm,
  wgmmaForms,
} from "./wgmma-forms.ts";

const formats = { f16: "f16", bf16: "bf16", tf32: "tf32", e4m3: "e4m3", e5m2: "e5m2", f32: "f32" } as const;
const isFloat = (type: string): type is keyof typeof formats => Object.hasOwn(formats, type);
const codeOf = (type: string, x: number): number =>
  (isFloat(type) ? encode(formats[type], x) : x & (type === "s32" ? 0xffffffff : 0xff)) >>> 0;

/** Small integers with a pattern of their own at each place: any permutation of elements changes some sum. */
function integers(f: WgmmaForm, seed: number): { readonly elements: Elements; readonly want: Float64Array } {
  const next = generator(seed);
  const k = f.k * f.steps;
  const low = (type: string): number => (type === "u8" ? 0 : -2);
  const numbers = (count: number, least: number): number[] =>
    Array.from({ length: count }, () => Math.floor(next() * 5) + least);
  const a = numbers(64 * k, low(f.a));
  const b = numbers(f.n * k, low(f.b));
  const c = numbers(64 * f.n, -2);
  const want = new Float64Array(64 * f.n);
  for (let row = 0; row < 64; row++)
    for (let column = 0; column < f.n; column++) {
      let sum = f.fresh ? 0 : (c[row * f.n + column] ?? 0);
      for (let i = 0; i < k; i++) sum += f.aSign * (a[row * k + i] ?? 0) * f.bSign * (b[column * k + i] ?? 0);
      want[row * f.n + column] = sum;
    }
  return {
    elements: {
      a: (row, at) => codeOf(f.a, a[row * k + at] ?? 0),
      b: (row, at) => codeOf(f.b, b[row * k + at] ?? 0),
      c: (row, column) => codeOf(f.d, c[row * f.n + column] ?? 0),
    },
    want,
  };
}

/** D[64][n] of the first case. */
function result(f: WgmmaForm, words: Uint32Array): Float64Array {
  const out = new Float64Array(64 * f.n);
  const floats = new Float32Array(words.buffer);
  for (let r = 0; r < accumulatorCount(f); r++)
    for (let thread = 0; thread < threads; thread++) {
      const at = r * threads + thread;
      const put = (register: number, x: number): void => {
        const [row, column] = accumulatorAt(thread, register);
        out[row * f.n + column] = x;
      };
      const word = words[at] ?? 0;
      if (f.d === "f16") {
        put(2 * r, decode("f16", word & 0xffff));
        put(2 * r + 1, decode("f16", word >>> 16));
      } else put(r, f.d === "f32" ? (floats[at] ?? 0) : word | 0);
    }
  return out;
}

function runner(f: WgmmaForm, edit?: (body: string) => string) {
  const device = machine(kernelOf(f, edit));
  return (cases: readonly Elements[], rest: Parameters<typeof device.launch>[4] = {}) => {
    const { a, b, c } = buffersOf(f, cases);
    const bytes = outputBytes(f, cases.length);
    const d = device.blank(bytes);
    const params = [device.put(a), device.put(b), device.put(c), d];
    const report = device.launch("k", cases.length, threads, params, rest);
    return { report, words: () => device.u32(d, bytes / 4) };
  };
}

describe("every form multiplies integers exactly", () => {
  test.each(wgmmaForms)("$name", (f) => {
    const { elements, want } = integers(f, 3);
    const run = runner(f);
    for (const order of orders) {
      const { report, words } = run([elements], { order, seed: 4 });
      clean(report);
      expect(result(f, words()), order).toEqual(want);
    }
  });
});

describe("descriptors", () => {
  test("addresses are those of CuTe's canonical layouts, in every mode", () => {
    for (const swizzle of ["none", "32B", "64B", "128B"] as const satisfies readonly Swizzle[])
      for (const major of ["k", "mn"] as const)
        for (const bits of major === "mn" ? [16] : [8, 16, 32])
          for (const rows of [8, 64, 96, 256]) {
            const [k, steps] = [256 / bits, 4];
            const layout = { major, swizzle };
            const place = placementOf(layout, rows, k, steps, bits);
            const constant = descriptorConstant(layout, place);
            for (let step = 0; step < steps; step++) {
              const start = 3 * 1024 + place.step(step);
              const word = constant | BigInt(start >> 4);
              const { descriptor, reserved } = decodeWgmmaDescriptor(
                Number(word & 0xffffffffn) | 0,
                Number(word >> 32n) | 0,
              );
              expect(reserved).toBe(false);
              expect(encodeWgmmaDescriptor(descriptor)).toBe(word);
              for (let row = 0; row < rows; row += 3)
                for (let at = 0; at < k; at++)
                  expect(wgmmaAddress(descriptor, major, row, at, bits / 8)).toBe(
                    3 * 1024 + place.at(row, at + step * k),
                  );
            }
          }
  });

  test("bits without a meaning are seen", () => {
    for (const bit of [14, 15, 30, 31, 46, 47, 48, 52, 58, 61]) {
      const word = 1n << BigInt(bit);
      expect(decodeWgmmaDescriptor(Number(word & 0xffffffffn) | 0, Number(word >> 32n) | 0).reserved).toBe(
        true,
      );
    }
    expect(elementBits("bf16")).toBe(16);
  });
});

describe("accumulators that are copied in flight, as nvcc's PTX does", () => {
  const form = wgmmaForms.find((f) => f.n === 8 && f.steps > 1 && !f.rs && f.d === "f32" && !f.fresh);
  if (form === undefined) throw new Error("the form is gone");
  const each = (text: (r: number) => string): string =>
    Array.from({ length: accumulatorCount(form) }, (_, r) => text(r)).join("\n");
  const declared = `.reg .f32 %k<${accumulatorCount(form)}>;\n`;
  const [away, back] = [each((r) => `mov.f32 %k${r}, %c${r};`), each((r) => `mov.f32 %c${r}, %k${r};`)];
  const cleared = each((r) => `mov.f32 %c${r}, 0fBF800000;`);
  const fence = "wgmma.fence.sync.aligned;";
  const wait = "wgmma.wait_group.sync.aligned 0;";
  const edits: readonly (readonly [string, (body: string) => string])[] = [
    ["before the wait", (t) => t.replace(wait, `${away}\n${wait}\n${back}`)],
    ["and overwritten", (t) => t.replace(wait, `${away}\n${cleared}\n${wait}\n${back}`)],
    ["there and back", (t) => t.replace(wait, `${away}\n${back}\n${wait}`)],
    [
      "there, back and overwritten",
      (t) => t.replace(wait, `${away}\n${back}\n${cleared.replaceAll("%c", "%k")}\n${wait}`),
    ],
    [
      "between two operations, the second of which has the copies",
      (t) => {
        const [first = "", ...others] = t.split(/(?=wgmma\.mma_async)/);
        const [one = "", ...rest] = others;
        const copied = rest.map((line) => line.replaceAll("%c", "%k")).join("");
        return `${first}${one}${away}\n${copied.replace(wait, `${wait}\n${back}`)}`;
      },
    ],
    [
      "between two operations on the same registers, back behind both",
      (t) =>
        t
          .replace(wait, `${wait}\n${fence}`)
          .replace(/(?=wgmma\.commit_group)/, `${away}\n${cleared}\n`)
          .concat(`\n${back}`),
    ],
  ];
  test.each(edits)("%s", (_, edit) => {
    const { elements, want } = integers(form, 9);
    const run = runner(form, (body) => declared + edit(body));
    for (const checks of ["all", "none"] as const)
      for (const order of orders) {
        const { report, words } = run([elements], { order, seed: 4, checks });
        clean(report);
        expect(result(form, words()), `${order}, checks ${checks}`).toEqual(want);
      }
  });
});

describe("rules", () => {
  const [plain] = wgmmaForms.filter((f) => f.n === 8);
  const registers = wgmmaForms.find((f) => f.rs && f.n === 64);
  if (plain === undefined || registers === undefined) throw new Error("a form is gone");
  const { elements } = integers(plain, 5);
  const rulesOf = (f: WgmmaForm, edit: (body: string) => string, rest = {}): string[] => {
    const { report } = runner(f, edit)([f === plain ? elements : integers(f, 5).elements], rest);
    return report.findings.map((finding) => finding.rule);
  };
  const faults: readonly (readonly [string, string, WgmmaForm, (body: string) => string])[] = [
    ["H033", "no fence.proxy.async", plain, (t) => t.replace("fence.proxy.async.shared::cta;", "")],
    ["H061", "no wgmma.fence", plain, (t) => t.replace("wgmma.fence.sync.aligned;", "")],
    [
      "H061",
      "an accumulator written after the fence",
      plain,
      (t) => t.replace("wgmma.fence.sync.aligned;", "wgmma.fence.sync.aligned;\nmov.f32 %c1, 0f00000000;"),
    ],
    [
      "H061",
      "A written after the fence",
      registers,
      (t) => t.replace("wgmma.fence.sync.aligned;", "wgmma.fence.sync.aligned;\nadd.u32 %a2, %a2, %a3;"),
    ],
    [
      "H060",
      "an accumulator read before the wait",
      plain,
      (t) =>
        t.replace("wgmma.wait_group.sync.aligned 0;", "neg.f32 %c2, %c2;\nwgmma.wait_group.sync.aligned 0;"),
    ],
    [
      "H060",
      "a copy of an accumulator read before the wait",
      plain,
      (t) =>
        t.replace(
          "wgmma.wait_group.sync.aligned 0;",
          "mov.b32 %r, %c2;\nadd.u32 %r, %r, 1;\nwgmma.wait_group.sync.aligned 0;",
        ),
    ],
    [
      "H060",
      "an accumulator overwritten in flight that no copy has",
      plain,
      (t) =>
        t.replace(
          "wgmma.wait_group.sync.aligned 0;",
          "mov.b32 %r, %c2;\nmov.b32 %c1, 0;\nwgmma.wait_group.sync.aligned 0;",
        ),
    ],
    [
      "H060",
      "no wait before the results are stored",
      plain,
      (t) => t.replace("wgmma.wait_group.sync.aligned 0;", ""),
    ],
    ["H060", "a wait that leaves a group", plain, (t) => t.replace("aligned 0;", "aligned 1;")],
    [
      "H060",
      "A written in flight",
      registers,
      (t) => t.replace("wgmma.commit_group", "mov.u32 %a1, 0;\nwgmma.commit_group"),
    ],
    ["H064", "no commit", plain, (t) => t.replace("wgmma.commit_group.sync.aligned;", "")],
    ["H065", "no wait before the exit", plain, (t) => t.replace("wgmma.wait_group.sync.aligned 0;", "ret;")],
    [
      "H062",
      "a start at the end of the window",
      plain,
      (t) => t.replace(/or\.b64 %db, %db, (\d+);/, (all) => `${all}\nor.b64 %db, %db, 0x3f00;`),
    ],
    [
      "H067",
      "a reserved bit",
      plain,
      (t) => t.replace(/or\.b64 %db, %db, (\d+);/, (all) => `${all}\nor.b64 %db, %db, ${1n << 46n};`),
    ],
    [
      "H063",
      "a warp with another descriptor",
      plain,
      (t) =>
        t.replace(
          /or\.b64 %db, %db, (\d+);/,
          (all) => `${all}\nsetp.ge.u32 %half, %thread, 96;\n@%half add.u64 %db, %db, 2;`,
        ),
    ],
    [
      "H063",
      "lanes with different descriptors",
      plain,
      (t) =>
        t.replace(
          /or\.b64 %db, %db, (\d+);/,
          (all) => `${all}\nsetp.eq.u32 %half, %thread, 5;\n@%half add.u64 %db, %db, 2;`,
        ),
    ],
    [
      "H030",
      "three warps of four",
      plain,
      (t) =>
        `setp.ge.u32 %half, %thread, 96;\n@%half bra OVER;\n${t.replace("bar.sync 0;", "bar.sync 0, 96;")}\nOVER:`,
    ],
    ["H011", "operands overwritten by the generic proxy before", plain, (t) => t.replace("bar.sync 0;", "")],
    [
      "H035",
      "an operand overwritten in flight",
      plain,
      (t) => t.replace("wgmma.wait_group", "st.shared.b32 [%s], %r;\nwgmma.wait_group"),
    ],
  ];
  test.each(faults)("%s: %s", (rule, _what, f, edit) => {
    const found = orders.flatMap((order) => rulesOf(f, edit, { order, seed: 2 }));
    const accepted = rule === "H011" ? ["H009", "H011", "H033"] : [rule];
    expect(
      found.some((r) => accepted.includes(r)),
      [...new Set(found)].join(" "),
    ).toBe(true);
  });

  test("H066: registers shared by two shapes in flight", () => {
    const edit = (t: string): string =>
      t.replace(/wgmma\.commit_group/, (all) => {
        const [line] = /wgmma\.mma_async[^\n]*/.exec(t) ?? [""];
        const swapped = line.replace("{%c0, %c1,", "{%c1, %c0,");
        return `${swapped}\n${all}`;
      });
    expect(rulesOf(plain, edit)).toContain("H066");
  });

  test("a group may stay in flight while its registers are left alone", () => {
    const edit = (t: string): string =>
      t.replace(
        "wgmma.wait_group.sync.aligned 0;",
        "wgmma.wait_group.sync.aligned 1;\nadd.u32 %r, %r, 1;\nwgmma.wait_group.sync.aligned 0;",
      );
    for (const order of orders) expect(rulesOf(plain, edit, { order })).toEqual([]);
  });
});

// ---------------------------------------------------------------- a GPU's bits

describe("the H200's bits", () => {
  const golden: Readonly<Record<string, Readonly<Record<string, string>>>> = JSON.parse(
    fixture("golden/wgmma-sm_90a.json"),
  );
  test.each(wgmmaForms)("$name", (f) => {
    const run = runner(f);
    for (const kind of inputClasses) {
      const { report, words } = run(casesOf(f, kind));
      clean(report);
      const hash = createHash("sha256").update(new Uint8Array(words().buffer)).digest("hex");
      expect(hash, kind).toBe(golden[f.name]?.[kind]);
    }
    expect(casesPerClass).toBeGreaterThan(0);
  });
});
