/**
 * One kernel per form of wgmma and layout of its operands: used to record what a GPU answers and to compare. A block runs one
 * case with one warpgroup: it copies images of A and B to shared memory as they are, multiplies in several steps along K and
 * writes its accumulators. The images' layouts are CuTe's canonical ones, written down here on their own.
 */
import { bitSource, element, type InputClass, inputClasses } from "./mma-forms.ts";

export type Swizzle = "none" | "32B" | "64B" | "128B";
export interface Layout {
  readonly major: "k" | "mn";
  readonly swizzle: Swizzle;
}

export interface WgmmaForm {
  readonly name: string;
  readonly mnemonic: string;
  readonly n: number;
  /** K of one instruction, and how many are chained. */
  readonly k: number;
  readonly steps: number;
  readonly d: string;
  readonly a: string;
  readonly b: string;
  /** A in registers. */
  readonly rs: boolean;
  readonly aLayout: Layout;
  readonly bLayout: Layout;
  readonly aSign: 1 | -1;
  readonly bSign: 1 | -1;
  /** The first step ignores the accumulators. */
  readonly fresh: boolean;
}

const bitsOf: Readonly<Record<string, number>> = {
  f16: 16,
  bf16: 16,
  tf32: 32,
  e4m3: 8,
  e5m2: 8,
  s8: 8,
  u8: 8,
};
export const elementBits = (type: string): number => bitsOf[type] ?? 32;

const kMajor = (swizzle: Swizzle): Layout => ({ major: "k", swizzle });
const mnMajor = (swizzle: Swizzle): Layout => ({ major: "mn", swizzle });

interface Options {
  readonly rs?: boolean;
  readonly a?: Layout;
  readonly b?: Layout;
  readonly steps?: number;
  readonly signs?: readonly [1 | -1, 1 | -1];
  readonly fresh?: boolean;
  readonly satfinite?: boolean;
}

function form(n: number, types: readonly [string, string, string], options: Options = {}): WgmmaForm {
  const [d, a, b] = types;
  const k = 256 / elementBits(a);
  const { rs = false, steps = 4, signs = [1, 1], fresh = false, satfinite = false } = options;
  const aLayout = options.a ?? kMajor("128B");
  const bLayout = options.b ?? kMajor("128B");
  const mnemonic = `wgmma.mma_async.sync.aligned.m64n${n}k${k}.${d}.${a}.${b}${satfinite ? ".satfinite" : ""}`;
  const tag = (layout: Layout): string => `${layout.major}-${layout.swizzle}`;
  const name = [
    `m64n${n}k${k}.${d}.${a}.${b}`,
    rs ? "registers" : tag(aLayout),
    tag(bLayout),
    ...(steps === 4 ? [] : [`${steps} steps`]),
    ...(signs[0] < 0 ? ["-A"] : []),
    ...(signs[1] < 0 ? ["-B"] : []),
    ...(fresh ? ["fresh"] : []),
    ...(satfinite ? ["satfinite"] : []),
  ].join(" ");
  return {
    name,
    mnemonic: mnemonic.replace(/(\.s32)(\.[su]8\.[su]8)\.satfinite/, "$1.satfinite$2"),
    n,
    k,
    steps,
    d,
    a,
    b,
    rs,
    aLayout,
    bLayout,
    aSign: signs[0],
    bSign: signs[1],
    fresh,
  };
}

const swizzles = ["none", "32B", "64B", "128B"] as const;

/** Every type, every layout, the ends of n. */
export const wgmmaForms: readonly WgmmaForm[] = [
  form(8, ["f32", "f16", "f16"]),
  form(64, ["f32", "f16", "f16"], { steps: 8 }),
  form(96, ["f32", "f16", "f16"], { fresh: true }),
  form(256, ["f32", "f16", "f16"], { signs: [-1, 1] }),
  form(64, ["f32", "f16", "f16"], { rs: true }),
  form(64, ["f16", "f16", "f16"]),
  form(96, ["f16", "f16", "f16"], { rs: true, signs: [1, -1] }),
  ...swizzles.map((swizzle) => form(64, ["f32", "f16", "f16"], { a: kMajor(swizzle), b: mnMajor(swizzle) })),
  ...swizzles.map((swizzle) =>
    form(64, ["f32", "bf16", "bf16"], { a: mnMajor(swizzle), b: kMajor(swizzle) }),
  ),
  form(128, ["f32", "bf16", "bf16"], { a: mnMajor("128B"), b: mnMajor("128B") }),
  form(256, ["f32", "bf16", "bf16"], { rs: true, b: mnMajor("64B") }),
  form(8, ["f32", "tf32", "tf32"], { rs: true }),
  form(64, ["f32", "tf32", "tf32"]),
  form(96, ["f32", "tf32", "tf32"], { a: kMajor("64B"), b: kMajor("32B"), signs: [-1, -1] }),
  ...["e4m3", "e5m2"].flatMap((a) => ["e4m3", "e5m2"].map((b) => form(64, ["f32", a, b]))),
  form(96, ["f16", "e4m3", "e4m3"]),
  form(64, ["f16", "e5m2", "e4m3"], { rs: true }),
  form(256, ["f32", "e4m3", "e5m2"], { rs: true, b: kMajor("none") }),
  ...["s8", "u8"].flatMap((a) =>
    ["s8", "u8"].map((b) => form(64, ["s32", a, b], { satfinite: a !== b, fresh: a === b })),
  ),
  form(224, ["s32", "s8", "s8"], { rs: true, b: kMajor("32B") }),
  form(16, ["s32", "u8", "u8"], { satfinite: true, steps: 8 }),
];

// ---------------------------------------------------------------- layouts

const widths = { none: 16, "32B": 32, "64B": 64, "128B": 128 } as const;

/** Descriptor offsets and the bytes of an operand of `rows` rows; `step` bytes lead to the next instruction's K. */
export interface Placement {
  readonly leading: number;
  readonly stride: number;
  readonly bytes: number;
  readonly step: (index: number) => number;
  /** Byte of element (row, k), k over all steps. */
  readonly at: (row: number, k: number) => number;
}

export function placementOf(
  { major, swizzle }: Layout,
  rows: number,
  k: number,
  steps: number,
  bits: number,
): Placement {
  const width = widths[swizzle];
  const size = bits / 8;
  const total = k * steps;
  // Swizzle<B, 4, 3>: address bits 4.. are XORed with those from 7 on, as many as the row's 16-byte pieces need.
  const xor = (byte: number): number => byte ^ (((byte >> 7) & (width / 16 - 1)) << 4);
  const round = (bytes: number): number => Math.ceil(bytes / 1024) * 1024;
  if (major === "k") {
    // Atoms of 8 rows by `width` bytes, down the rows first, then along K.
    const stride = 8 * width;
    const column = Math.ceil(rows / 8) * stride;
    const linear = (row: number, byte: number): number =>
      Math.floor(byte / width) * column + (row >> 3) * stride + (row & 7) * width + (byte % width);
    return {
      leading: swizzle === "none" ? column : 16,
      stride,
      bytes: round(Math.ceil((total * size) / width) * column),
      step: (index) => linear(0, index * 32),
      at: (row, at) => xor(linear(row, at * size)),
    };
  }
  // Atoms of `width` bytes of rows by 8 of K, across the rows first, then along K.
  const per = width / size;
  const across = Math.ceil(rows / per);
  const atom = 8 * width;
  const linear = (row: number, at: number): number =>
    (at >> 3) * across * atom + Math.floor(row / per) * atom + (at & 7) * width + (row % per) * size;
  const [next, down] = [atom, across * atom];
  return {
    leading: swizzle === "none" ? down : next,
    stride: swizzle === "none" ? next : down,
    bytes: round((total / 8) * down),
    step: (index) => linear(0, index * k),
    at: (row, at) => xor(linear(row, at)),
  };
}

const placements = (f: WgmmaForm): { readonly a: Placement; readonly b: Placement } => ({
  a: placementOf(f.aLayout, 64, f.k, f.steps, elementBits(f.a)),
  b: placementOf(f.bLayout, f.n, f.k, f.steps, elementBits(f.b)),
});

const swizzleCodes = { none: 0, "128B": 1, "64B": 2, "32B": 3 } as const;

/** The descriptor but for the address. */
export const descriptorConstant = (layout: Layout, { leading, stride }: Placement): bigint =>
  (BigInt(leading >> 4) << 16n) |
  (BigInt(stride >> 4) << 32n) |
  (BigInt(swizzleCodes[layout.swizzle]) << 62n);

// ---------------------------------------------------------------- the kernel

/** Accumulator registers of a thread. */
export const accumulatorCount = (f: WgmmaForm): number => (f.d === "f16" ? f.n / 4 : f.n / 2);
const range = (count: number): number[] => Array.from({ length: count }, (_, i) => i);
export const threads = 128;

/** `k(a, b, c, d)`: a case per block. Text of the steps can be changed by `edit`, to break it. */
export function kernelOf(f: WgmmaForm, edit: (body: string) => string = (body) => body): string {
  const { a, b } = placements(f);
  const count = accumulatorCount(f);
  const type = f.d === "f32" ? "f32" : "b32";
  const aBytes = f.rs ? 0 : a.bytes;
  const copy = (name: string, from: number, bytes: number): string[] => [
    `ld.param.u64 %p, [p${name}];`,
    "cvta.to.global.u64 %p, %p;",
    `mad.wide.u32 %p, %block, ${bytes}, %p;`,
    "mad.wide.u32 %p, %thread, 16, %p;",
    ...range(bytes / 2048).flatMap((i) => [
      `ld.global.v4.b32 {%w0, %w1, %w2, %w3}, [%p+${i * 2048}];`,
      `st.shared.v4.b32 [%s+${from + i * 2048}], {%w0, %w1, %w2, %w3};`,
    ]),
    // What is left of 1024 bytes is half a round.
    ...(bytes % 2048 === 0
      ? []
      : [
          `@%half ld.global.v4.b32 {%w0, %w1, %w2, %w3}, [%p+${bytes - 1024}];`,
          `@%half st.shared.v4.b32 [%s+${from + bytes - 1024}], {%w0, %w1, %w2, %w3};`,
        ]),
  ];
  const registers = (name: string, from: string, words: number, kind: string, total: number): string[] => [
    `ld.param.u64 %p, [p${from}];`,
    "cvta.to.global.u64 %p, %p;",
    `mad.wide.u32 %p, %block, ${total * threads * 4}, %p;`,
    "mad.wide.u32 %p, %thread, 4, %p;",
    ...range(words).map((r) => `ld.global.${kind} %${name}${r}, [%p+${r * threads * 4}];`),
  ];
  const descriptor = (
    layout: Layout,
    placement: Placement,
    from: number,
    index: number,
    to: string,
  ): string[] => [
    `add.u32 %r, %base, ${from + placement.step(index)};`,
    "shr.u32 %r, %r, 4;",
    "and.b32 %r, %r, 0x3fff;",
    `cvt.u64.u32 %${to}, %r;`,
    `or.b64 %${to}, %${to}, ${descriptorConstant(layout, placement)};`,
  ];
  const list = (name: string, from: number, many: number): string =>
    `{${range(many)
      .map((r) => `%${name}${from + r}`)
      .join(", ")}}`;
  const integer = f.d === "s32";
  const transposes = elementBits(f.a) === 16;
  const steps = range(f.steps).flatMap((s) => {
    const tail = [
      f.fresh && s === 0 ? "0" : "1",
      ...(integer ? [] : [`${f.aSign}`, `${f.bSign}`]),
      ...(transposes && !f.rs ? [f.aLayout.major === "mn" ? "1" : "0"] : []),
      ...(transposes ? [f.bLayout.major === "mn" ? "1" : "0"] : []),
    ];
    return [
      ...(f.rs ? [] : descriptor(f.aLayout, a, 0, s, "da")),
      ...descriptor(f.bLayout, b, aBytes, s, "db"),
      `${f.mnemonic} ${list("c", 0, count)}, ${f.rs ? list("a", 4 * s, 4) : "%da"}, %db, ${tail.join(", ")};`,
    ];
  });
  const body = edit(
    [
      "fence.proxy.async.shared::cta;",
      "bar.sync 0;",
      "wgmma.fence.sync.aligned;",
      ...steps,
      "wgmma.commit_group.sync.aligned;",
      "wgmma.wait_group.sync.aligned 0;",
    ].join("\n"),
  );
  return `.version 8.7
.target sm_90a
.address_size 64
.visible .entry k(.param .u64 pa, .param .u64 pb, .param .u64 pc, .param .u64 pd)
.maxntid 128, 1, 1
{
.reg .pred %half;
.reg .b32 %thread, %block, %base, %s, %r, %w<4>, %a<${4 * f.steps}>;
.reg .${type} %c<${count}>;
.reg .b64 %p, %da, %db;
.shared .align 1024 .b8 smem[${aBytes + b.bytes}];
mov.u32 %thread, %tid.x;
mov.u32 %block, %ctaid.x;
mov.u32 %base, smem;
mad.lo.u32 %s, %thread, 16, %base;
setp.lt.u32 %half, %thread, 64;
${[
  ...(f.rs ? registers("a", "a", 4 * f.steps, "b32", 4 * f.steps) : copy("a", 0, a.bytes)),
  ...copy("b", aBytes, b.bytes),
  ...registers("c", "c", count, type, count),
].join("\n")}
${body}
ld.param.u64 %p, [pd];
cvta.to.global.u64 %p, %p;
mad.wide.u32 %p, %block, ${count * threads * 4}, %p;
mad.wide.u32 %p, %thread, 4, %p;
${range(count)
  .map((r) => `st.global.${type} [%p+${r * threads * 4}], %c${r};`)
  .join("\n")}
ret;
}
`;
}

// ---------------------------------------------------------------- inputs

/** Codes of the elements of a case: A[64][K], B[n][K], C[64][n]. */
export interface Elements {
  readonly a: (row: number, k: number) => number;
  readonly b: (row: number, k: number) => number;
  readonly c: (row: number, column: number) => number;
}

/** Where lane and register of a warp lie in D: CuTe's CLayout_64xN. */
export const accumulatorAt = (thread: number, register: number): readonly [row: number, column: number] => [
  16 * (thread >> 5) + ((thread & 31) >> 2) + 8 * ((register >> 1) & 1),
  8 * (register >> 2) + 2 * (thread & 3) + (register & 1),
];

/** Row and k of the elements of A in register r of a thread: CuTe's ALayout_64x{16,8,32}. */
function operandAt(bits: number, thread: number, r: number, part: number): readonly [number, number] {
  const row = 16 * (thread >> 5) + ((thread & 31) >> 2) + 8 * (r & 1);
  const t = thread & 3;
  const per = 32 / bits;
  return [row, per * t + part + 4 * per * (r >> 1)];
}

/** The kernel's buffers for some cases. */
export function buffersOf(f: WgmmaForm, cases: readonly Elements[]): Record<"a" | "b" | "c", Uint8Array> {
  const { a: aPlace, b: bPlace } = placements(f);
  const k = f.k * f.steps;
  const image = (
    place: Placement,
    rows: number,
    type: string,
    pick: (e: Elements) => Elements["a"],
  ): Uint8Array => {
    const bytes = new Uint8Array(place.bytes * cases.length);
    const size = elementBits(type) / 8;
    cases.forEach((elements, i) => {
      for (let row = 0; row < rows; row++)
        for (let at = 0; at < k; at++) {
          const code = pick(elements)(row, at);
          const to = i * place.bytes + place.at(row, at);
          for (let byte = 0; byte < size; byte++) bytes[to + byte] = (code >>> (8 * byte)) & 255;
        }
    });
    return bytes;
  };
  const words = (
    perThread: number,
    value: (elements: Elements, thread: number, r: number) => number,
  ): Uint8Array => {
    const out = new Uint32Array(cases.length * perThread * threads);
    cases.forEach((elements, i) => {
      for (let r = 0; r < perThread; r++)
        for (let thread = 0; thread < threads; thread++)
          out[(i * perThread + r) * threads + thread] = value(elements, thread, r);
    });
    return new Uint8Array(out.buffer);
  };
  const bits = elementBits(f.a);
  const registers = (elements: Elements, thread: number, r: number): number => {
    let word = 0;
    for (let part = 0; part < 32 / bits; part++) {
      const [row, at] = operandAt(bits, thread, r & 3, part);
      word |= elements.a(row, at + f.k * (r >> 2)) << (bits * part);
    }
    return word >>> 0;
  };
  const accumulators = (elements: Elements, thread: number, r: number): number => {
    const code = (register: number): number => elements.c(...accumulatorAt(thread, register));
    return f.d === "f16" ? (code(2 * r) | (code(2 * r + 1) << 16)) >>> 0 : code(r);
  };
  return {
    a: f.rs ? words(4 * f.steps, registers) : image(aPlace, 64, f.a, (e) => e.a),
    b: image(bPlace, f.n, f.b, (e) => e.b),
    c: words(accumulatorCount(f), accumulators),
  };
}

/** Cases per class. */
export const casesPerClass = 2;

/** The cases of a class of inputs, as in mma-forms.ts. */
export function casesOf(f: WgmmaForm, kind: InputClass): readonly Elements[] {
  const bits = bitSource(inputClasses.indexOf(kind) * 1000 + f.name.length * 7 + 3);
  const k = f.k * f.steps;
  return range(casesPerClass).map(() => {
    const table = (rows: number, width: number, type: string, operand: "a" | "b" | "c") => {
      const codes = Uint32Array.from({ length: rows * width }, () => element(type, kind, operand, bits)[0]);
      return (row: number, at: number): number => codes[row * width + at] ?? 0;
    };
    return { a: table(64, k, f.a, "a"), b: table(f.n, k, f.b, "b"), c: table(64, f.n, f.d, "c") };
  });
}

/** Bytes that a class's cases write. */
export const outputBytes = (f: WgmmaForm, cases: number): number => cases * accumulatorCount(f) * threads * 4;
