/**
 * Products of a sparse A. The reference is the dense product of A with its zeros put in, by plain loops; which lane holds which element and which
 * metadata is written here by formulas, independent of the emulator's tables.
 */
import { encode, type FloatFormat } from "@tilewright/core";
import { describe, expect, test } from "vitest";
import { clean, generator, machine } from "./support.ts";

const bitsOf = (type: string): number =>
  ({ f16: 16, bf16: 16, tf32: 32, e4m3: 8, e5m2: 8, s8: 8, u8: 8, s4: 4, u4: 4 })[type] ?? 0;
const isInteger = (type: string): boolean => /^[su]\d/.test(type);
const codeOf = (type: string, x: number): number =>
  isInteger(type) ? x & (2 ** bitsOf(type) - 1) : encode(type as FloatFormat, x);
/** Elements of a chunk, of which half are stored. */
const chunkOf = (bits: number): number => (bits === 32 ? 2 : bits === 4 ? 8 : 4);

interface Sparse {
  /** Stored elements [rows][k / 2], A with its zeros [rows][k], and each row's metadata, 4 bits a chunk, lowest first. */
  readonly stored: readonly (readonly number[])[];
  readonly dense: readonly (readonly number[])[];
  readonly metadata: readonly bigint[];
}

/** A sparse matrix of small numbers. */
function sparseMatrix(type: string, rows: number, k: number, next: () => number, ordered: boolean): Sparse {
  const bits = bitsOf(type);
  const chunk = chunkOf(bits);
  const quarter = chunk / 4;
  const made = Array.from({ length: rows }, () => {
    const dense = new Array<number>(k).fill(0);
    const stored: number[] = [];
    let metadata = 0n;
    for (let c = 0; c < k / chunk; c++) {
      const first = Math.floor(next() * 4);
      const second = (first + 1 + Math.floor(next() * 3)) % 4;
      const pair = bits === 32 ? (first < 2 ? [0, 1] : [2, 3]) : [first, second];
      if (ordered || bits === 32) pair.sort((x, y) => x - y);
      const [low = 0, high = 0] = pair;
      metadata |= BigInt(low | (high << 2)) << BigInt(4 * c);
      const places =
        bits === 32
          ? [low / 2]
          : pair.flatMap((p) => Array.from({ length: quarter }, (_, i) => p * quarter + i));
      for (const place of places) {
        const x = Math.floor(next() * 8) - (type.startsWith("u") ? 0 : 4);
        dense[c * chunk + place] = x;
        stored.push(x);
      }
    }
    return { stored, dense, metadata };
  });
  return {
    stored: made.map((row) => row.stored),
    dense: made.map((row) => row.dense),
    metadata: made.map((row) => row.metadata),
  };
}

/** Registers of 16 rows of A (`row`: 8 further rows in every other register) or of 8 columns of B. */
function fragment(
  type: string,
  registers: number,
  at: (row: number, column: number) => number,
  isA: boolean,
): Uint32Array {
  const bits = bitsOf(type);
  const elements = 32 / bits;
  const out = new Uint32Array(registers * 32);
  for (let r = 0; r < registers; r++)
    for (let lane = 0; lane < 32; lane++)
      for (let p = 0; p < elements; p++) {
        const row = (lane >> 2) + (isA ? 8 * (r & 1) : 0);
        const column = (lane & 3) * elements + p + (isA ? r >> 1 : r) * 4 * elements;
        out[r * 32 + lane] = (out[r * 32 + lane] ?? 0) | (codeOf(type, at(row, column)) << (p * bits));
      }
  return out;
}

/** What each lane of a warp holds of the metadata of its 16 rows. */
function metadataWords(metadata: readonly bigint[], k: number, bits: number, selector: number): Uint32Array {
  const out = new Uint32Array(32);
  const rowBits = (k / chunkOf(bits)) * 4;
  const slice = bits >= 16 ? 16 : 32;
  metadata.forEach((row, r) => {
    for (let s = 0; s < rowBits / slice; s++) {
      const word = Number((row >> BigInt(slice * s)) & (2n ** BigInt(slice) - 1n));
      const quad = 4 * (r % 8);
      if (slice === 16) {
        const lane = quad + selector * (rowBits / 16) + s;
        out[lane] = (out[lane] ?? 0) | (word << (r < 8 ? 0 : 16));
      } else out[quad + selector * 2 + (r < 8 ? 0 : 1) + 2 * s] = word;
    }
  });
  return out;
}

interface Form {
  readonly k: number;
  readonly ab: number;
  readonly types: readonly [d: string, a: string, b: string];
  readonly selectors: number;
}
const forms: readonly Form[] = [
  { k: 16, ab: 2, types: ["f32", "f16", "f16"], selectors: 4 },
  { k: 32, ab: 4, types: ["f32", "f16", "f16"], selectors: 2 },
  { k: 16, ab: 2, types: ["f16", "f16", "f16"], selectors: 4 },
  { k: 32, ab: 4, types: ["f16", "f16", "f16"], selectors: 2 },
  { k: 16, ab: 2, types: ["f32", "bf16", "bf16"], selectors: 4 },
  { k: 32, ab: 4, types: ["f32", "bf16", "bf16"], selectors: 2 },
  { k: 8, ab: 2, types: ["f32", "tf32", "tf32"], selectors: 4 },
  { k: 16, ab: 4, types: ["f32", "tf32", "tf32"], selectors: 2 },
  { k: 64, ab: 4, types: ["f32", "e4m3", "e5m2"], selectors: 1 },
  { k: 32, ab: 2, types: ["s32", "s8", "u8"], selectors: 2 },
  { k: 64, ab: 4, types: ["s32", "u8", "s8"], selectors: 1 },
  { k: 64, ab: 2, types: ["s32", "s4", "u4"], selectors: 2 },
  { k: 128, ab: 4, types: ["s32", "u4", "s4"], selectors: 1 },
];

const list = (name: string, count: number): string =>
  `{${Array.from({ length: count }, (_, r) => `%${name}${r}`).join(", ")}}`;

function mmaKernel({ k, ab, types: [d, a, b] }: Form, sp: string, selector: number): string {
  const count = d === "f16" ? 2 : 4;
  const load = (name: string, n: number): string =>
    Array.from({ length: n }, (_, r) => `ld.global.b32 %${name}${r}, [%p${name}+${128 * r}];`).join("\n");
  const type = d === "f32" ? "f32" : "b32";
  return `.version 8.6
.target sm_90
.address_size 64
.visible .entry k(.param .u64 pa, .param .u64 pb, .param .u64 pe, .param .u64 pd)
{
.reg .b32 %a<4>, %b<4>, %e<1>, %t; .reg .${type} %d<4>; .reg .b64 %pa, %pb, %pe, %pd;
mov.u32 %t, %tid.x;
${["a", "b", "e", "d"].map((n) => `ld.param.u64 %p${n}, [p${n}]; mad.wide.u32 %p${n}, %t, 4, %p${n};`).join("\n")}
${load("a", ab)}
${load("b", ab)}
${load("e", 1)}
${Array.from({ length: count }, (_, r) => `mov.${type} %d${r}, ${d === "f32" ? "0f00000000" : "0"};`).join("\n")}
mma.${sp}.sync.aligned.m16n8k${k}.row.col.${d}.${a}.${b}.${d} ${list("d", count)}, ${list("a", ab)}, ${list("b", ab)}, ${list("d", count)}, %e0, ${selector};
${Array.from({ length: count }, (_, r) => `st.global.${type} [%pd+${128 * r}], %d${r};`).join("\n")}
ret;
}
`;
}

const dot = (a: readonly number[], b: readonly number[]): number =>
  a.reduce((sum, x, i) => sum + x * (b[i] ?? 0), 0);
const halfOf = (x: number): number => encode("f16", x);

describe("mma.sp multiplies A with its zeros put in", () => {
  test.each(forms)("m16n8k$k $types", (form) => {
    const { k, ab, selectors } = form;
    const [d, a, b] = form.types;
    for (let selector = 0; selector < selectors; selector++)
      for (const sp of ["sp", "sp::ordered_metadata"]) {
        const next = generator(k * 10 + selector);
        const sparse = sparseMatrix(a, 16, k, next, sp !== "sp");
        const right = Array.from({ length: 8 }, () =>
          Array.from({ length: k }, () => Math.floor(next() * 8) - (b.startsWith("u") ? 0 : 4)),
        );
        const device = machine(mmaKernel(form, sp, selector));
        const out = device.blank(512);
        // Lanes that hold no metadata hold anything.
        const words = metadataWords(sparse.metadata, k, bitsOf(a), selector).map((word, lane) =>
          selectors > 1 && Math.floor((lane % 4) / (4 / selectors)) !== selector ? 0xffffffff : word,
        );
        clean(
          device.launch("k", 1, 32, [
            device.put(fragment(a, ab, (row, column) => sparse.stored[row]?.[column] ?? 0, true)),
            device.put(fragment(b, ab, (column, at) => right[column]?.[at] ?? 0, false)),
            device.put(words),
            out,
          ]),
        );
        const want = (row: number, column: number): number =>
          dot(sparse.dense[row] ?? [], right[column] ?? []);
        const got = device.u32(out, d === "f16" ? 64 : 128);
        const expected = got.map((_, at) => {
          const [r, lane] = [at >> 5, at & 31];
          const row = (lane >> 2) + 8 * (d === "f16" ? r : r >> 1);
          const column = (lane & 3) * 2;
          if (d === "f16") return (halfOf(want(row, column)) | (halfOf(want(row, column + 1)) << 16)) >>> 0;
          const x = want(row, column + (r & 1));
          return d === "s32" ? x >>> 0 : encode("f32", x) >>> 0;
        });
        expect(got, `${sp} ${selector}`).toEqual(expected);
      }
  });

  test("what lies beside a stored element is not multiplied", () => {
    const form = forms[0] as Form;
    const device = machine(mmaKernel(form, "sp", 0));
    const out = device.blank(512);
    // Row 0 stores columns 0 and 1; B is infinite everywhere else.
    const metadata = device.put(new Uint32Array(32).fill(0x44444444));
    const a = device.put(fragment("f16", 2, () => 1, true));
    const b = device.put(fragment("f16", 2, (_, at) => (at % 4 < 2 ? 1 : Number.POSITIVE_INFINITY), false));
    clean(device.launch("k", 1, 32, [a, b, metadata, out]));
    expect(new Set(device.f32(out, 128))).toEqual(new Set([8]));
  });

  test("metadata that means nothing is a finding", () => {
    const found = (sp: string, nibble: number, form: Form): readonly string[] => {
      const device = machine(mmaKernel(form, sp, 0));
      const word = Number(`0x${nibble.toString(16).repeat(8)}`);
      const report = device.launch("k", 1, 32, [
        device.put(new Uint32Array(128)),
        device.put(new Uint32Array(128)),
        device.put(new Uint32Array(32).fill(word)),
        device.blank(512),
      ]);
      return report.findings.map(({ rule }) => rule);
    };
    const [half, single] = [forms[0] as Form, forms[6] as Form];
    expect(found("sp", 0b0001, half)).toEqual([]);
    expect(found("sp::ordered_metadata", 0b0001, half)).toEqual(["H068"]);
    expect(found("sp", 0b0101, half)).toEqual(["H068"]);
    expect(found("sp", 0b0100, single)).toEqual([]);
    expect(found("sp", 0b1000, single)).toEqual(["H068"]);
  });
});

/** Bytes of a matrix without swizzle, K innermost: pieces of 8 rows by 16 bytes, those along K 128 bytes apart. */
function coreMatrices(
  type: string,
  rows: number,
  k: number,
  at: (row: number, column: number) => number,
): Uint8Array {
  const bits = bitsOf(type);
  const width = (k * bits) / 8;
  const bytes = new Uint8Array(rows * width);
  for (let row = 0; row < rows; row++)
    for (let column = 0; column < k; column++) {
      const byte = (column * bits) / 8;
      const to = (row >> 3) * 8 * width + (byte >> 4) * 128 + (row & 7) * 16 + (byte & 15);
      const code = codeOf(type, at(row, column));
      for (let i = 0; i < bits / 8; i++) bytes[to + i] = code >>> (8 * i);
    }
  return bytes;
}

function wgmmaKernel(types: Form["types"], k: number, selector: number, fromRegisters: boolean): string {
  const [d, a, b] = types;
  const rowBytes = (k * bitsOf(a)) / 8;
  const [sizeA, sizeB] = [32 * rowBytes, 8 * rowBytes];
  const count = d === "f16" ? 2 : 4;
  const type = d === "f32" ? "f32" : "b32";
  const descriptor = (name: string, at: number, sbo: number): string =>
    `add.u32 %r, %s, ${at}; shr.u32 %r, %r, 4; cvt.u64.u32 %${name}, %r; or.b64 %${name}, %${name}, ${(128 >> 4) * 2 ** 16 + (sbo >> 4) * 2 ** 32};`;
  const flags = d === "s32" ? "" : `, 1, 1${bitsOf(a) === 16 ? (fromRegisters ? ", 0" : ", 0, 0") : ""}`;
  const words = (sizeA + sizeB) / 4;
  return `.version 8.6
.target sm_90a
.address_size 64
.shared .align 1024 .b8 sm[${sizeA + sizeB}];
.visible .entry k(.param .u64 ps, .param .u64 pa, .param .u64 pe, .param .u64 pd)
{
.reg .b32 %a<4>, %e<1>, %t, %r, %s, %i, %v; .reg .${type} %d<4>; .reg .b64 %ps, %pa, %pe, %pd, %da, %db, %x; .reg .pred %p;
mov.u32 %t, %tid.x; mov.u32 %s, sm;
ld.param.u64 %ps, [ps];
${["a", "e", "d"].map((n) => `ld.param.u64 %p${n}, [p${n}]; mad.wide.u32 %p${n}, %t, 4, %p${n};`).join("\n")}
mov.u32 %i, %t;
L: setp.ge.u32 %p, %i, ${words}; @%p bra M;
mad.wide.u32 %x, %i, 4, %ps; ld.global.b32 %v, [%x]; mad.lo.u32 %r, %i, 4, %s; st.shared.b32 [%r], %v;
add.u32 %i, %i, 128; bra L;
M: fence.proxy.async.shared::cta; bar.sync 0;
${descriptor("da", 0, 256)}
${descriptor("db", sizeA, 8 * rowBytes)}
ld.global.b32 %e0, [%pe];
${Array.from({ length: 4 }, (_, r) => `ld.global.b32 %a${r}, [%pa+${512 * r}];`).join("\n")}
wgmma.fence.sync.aligned;
wgmma.mma_async.sp.sync.aligned.m64n8k${k}.${d}.${a}.${b} ${list("d", count)}, ${fromRegisters ? list("a", 4) : "%da"}, %db, %e0, ${selector}, 0${flags};
wgmma.commit_group.sync.aligned;
wgmma.wait_group.sync.aligned 0;
${Array.from({ length: count }, (_, r) => `st.global.${type} [%pd+${512 * r}], %d${r};`).join("\n")}
ret;
}
`;
}

describe("wgmma.mma_async.sp multiplies A with its zeros put in", () => {
  test.each([
    { k: 32, types: ["f32", "f16", "f16"], selectors: 2 },
    { k: 32, types: ["f16", "f16", "f16"], selectors: 2 },
    { k: 32, types: ["f32", "bf16", "bf16"], selectors: 2 },
    { k: 16, types: ["f32", "tf32", "tf32"], selectors: 2 },
    { k: 64, types: ["f32", "e4m3", "e5m2"], selectors: 1 },
    { k: 64, types: ["f16", "e5m2", "e4m3"], selectors: 1 },
    { k: 64, types: ["s32", "s8", "u8"], selectors: 1 },
  ] as const)("m64n8k$k $types", ({ k, types, selectors }) => {
    const [d, a, b] = types;
    for (let selector = 0; selector < selectors; selector++)
      for (const fromRegisters of [false, true]) {
        const next = generator(k + selector);
        const sparse = sparseMatrix(a, 64, k, next, false);
        const right = Array.from({ length: 8 }, () =>
          Array.from({ length: k }, () => Math.floor(next() * 8) - (b === "u8" ? 0 : 4)),
        );
        const device = machine(wgmmaKernel(types, k, selector, fromRegisters));
        const out = device.blank(2048);
        const stored = (row: number, column: number): number => sparse.stored[row]?.[column] ?? 0;
        const images = [
          coreMatrices(a, 64, k / 2, stored),
          coreMatrices(b, 8, k, (row, column) => right[row]?.[column] ?? 0),
        ];
        const warps = [0, 1, 2, 3];
        const byWarp = (words: (warp: number) => Uint32Array, registers: number): Uint32Array => {
          const all = warps.map(words);
          return Uint32Array.from(
            { length: registers * 128 },
            (_, at) => all[(at >> 5) & 3]?.[(at >> 7) * 32 + (at & 31)] ?? 0,
          );
        };
        const metadata = byWarp(
          (w) => metadataWords(sparse.metadata.slice(w * 16, w * 16 + 16), k, bitsOf(a), selector),
          1,
        );
        const registers = byWarp(
          (w) => fragment(a, 4, (row, column) => stored(w * 16 + row, column), true),
          4,
        );
        const report = device.launch("k", 1, 128, [
          device.put(Uint8Array.from(images.flatMap((image) => [...image]))),
          device.put(registers),
          device.put(metadata),
          out,
        ]);
        clean(report);
        const want = (row: number, column: number): number =>
          dot(sparse.dense[row] ?? [], right[column] ?? []);
        const got = device.u32(out, d === "f16" ? 256 : 512);
        const expected = got.map((_, at) => {
          const [r, lane, warp] = [at >> 7, at & 31, (at >> 5) & 3];
          const row = warp * 16 + (lane >> 2) + 8 * (d === "f16" ? r : r >> 1);
          const column = (lane & 3) * 2;
          if (d === "f16") return (halfOf(want(row, column)) | (halfOf(want(row, column + 1)) << 16)) >>> 0;
          const x = want(row, column + (r & 1));
          return d === "s32" ? x >>> 0 : encode("f32", x) >>> 0;
        });
        expect(got, `${selector} ${fromRegisters}`).toEqual(expected);
      }
  });
});
