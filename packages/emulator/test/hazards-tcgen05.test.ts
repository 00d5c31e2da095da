/** Findings of tcgen05.mma, H070 to H079 and what it shares with others: each fires, and not for the kernel close by. */
import {
  encodeInstructionDescriptor,
  encodeSharedDescriptor,
  type InstructionDescriptor,
  type SharedDescriptor,
} from "@tilewright/ptx";
import { expect, test } from "vitest";
import { rules } from "../src/index.ts";
import { clean } from "./support.ts";
import { type MmaLaunch, plainDescriptor, runMma } from "./tcgen05.ts";

const found = new Set<string>();
const bAt = 128 * 128;
const size = bAt + 16 * 128;
const shared = (fields: Partial<SharedDescriptor>): bigint =>
  encodeSharedDescriptor({
    address: 0,
    leading: 0,
    stride: 1024,
    baseOffset: 0,
    swizzle: "128B",
    ...fields,
  });
const descriptor = (fields: Partial<InstructionDescriptor> = {}): number =>
  encodeInstructionDescriptor(
    "f16",
    plainDescriptor({ m: 128, n: 16, a: "f16", b: "f16", d: "f32", ...fields }),
  );
const a = shared({});
const b = shared({ address: bAt });

/** A product of 128 x 16 x 16, f16, of zeros. */
const base: MmaLaunch = {
  group: 1,
  mma: "tcgen05.mma.cta_group::1.kind::f16 [%dt], %da, %db, %id, %pa;",
  shared: [new Uint8Array(size)],
  tensor: [new Int32Array(128 * 32)],
  columns: 32,
  steps: [[a, b]],
  descriptor: descriptor(),
};
const pair: MmaLaunch = {
  ...base,
  group: 2,
  mma: "tcgen05.mma.cta_group::2.kind::f16 [%dt], %da, %db, %id, %pa;",
  shared: [new Uint8Array(size), new Uint8Array(size)],
  tensor: [new Int32Array(128 * 32), new Int32Array(128 * 32)],
  descriptor: descriptor({ m: 256, n: 32 }),
};

const seen = (what: MmaLaunch): readonly string[] =>
  runMma(what).report.findings.map((f) => {
    found.add(f.rule);
    return `${f.rule} ${f.message}`;
  });
/** `what` shows exactly this. */
function expectFindings(what: MmaLaunch, ...want: (string | RegExp)[]): void {
  const got = seen(what);
  expect(got.length, got.join("\n")).toBe(want.length);
  want.forEach((w, k) => {
    if (typeof w === "string") expect(got[k]).toBe(w);
    else expect(got[k]).toMatch(w);
  });
}
const replace = (from: string, to: string) => (text: string) => {
  if (!text.includes(from)) throw new Error(`no ${from} in the kernel`);
  return text.replace(from, to);
};

test("nothing is found in the kernels that the others vary", () => {
  clean(runMma(base).report);
  clean(runMma(pair).report);
});

test("H070 reserved bits and codes", () => {
  expectFindings(
    { ...base, descriptor: descriptor() | (1 << 23) | (1 << 29) },
    "H070 bit 23 is reserved and has to be 0; bit 29 is reserved and has to be 0",
  );
  expectFindings({ ...base, descriptor: descriptor() | (1 << 2) }, /^H070 bit 2 asks for a sparse A/);
  expectFindings(
    { ...base, descriptor: descriptor() | (5 << 7) },
    "H070 type 5 of A: kind::f16 has 0 f16, 1 bf16",
  );
  clean(runMma({ ...base, descriptor: descriptor({ negateA: true, a: "bf16" }) }).report);
});

test("H068, H070, H072, H074 of a sparse product: metadata, selector and where it lies", () => {
  const sparse = (lane: number, bits: number, kind = "f16", word = 0x44444444): MmaLaunch => ({
    ...base,
    mma: `add.u32 %m7, %r7, ${(lane << 16) | 24}; tcgen05.mma.sp.cta_group::1.kind::${kind} [%dt], %da, %db, [%m7], %id, %pa;`,
    tensor: [new Int32Array(128 * 32).fill(word)],
    shared: [new Uint8Array(2 * size)],
    descriptor: descriptor() | bits,
  });
  clean(runMma(sparse(0, 0b101)).report);
  expectFindings(sparse(0, 0b100, "f16", 0x44444440), /^H068 lane 0 gives 0000 for columns 0 to 3 of row 0$/);
  expectFindings(sparse(0, 0), /^H070 bit 2 says that A is dense/);
  expectFindings(sparse(16, 0b100), /^H074 metadata starts at lane 16; with M = 128 .* at lane 0$/);
  // The same codes are e4m3 there.
  expectFindings(sparse(0, 0b101, "f8f6f4"), /^H072 sparsity selector 1/);
});

test("H071 version bits and swizzles", () => {
  expectFindings(
    { ...base, steps: [[a & ~(1n << 46n), b]] },
    "H071 descriptor of A: bits 46 to 48 are 0b000 and have to be 0b001 (this is a descriptor of wgmma)",
  );
  expectFindings(
    { ...base, steps: [[a, b | (1n << 61n)]] },
    "H071 descriptor of B: bits 61 to 63 are 3, which is no swizzle",
  );
  expectFindings(
    { ...base, steps: [[shared({ swizzle: "128B/32B" }), b]] },
    /^H071 descriptor of A: swizzle 128B with 32-byte atoms is for M or N contiguous/,
  );
  clean(runMma({ ...base, steps: [[shared({ swizzle: "64B", stride: 512 }), b]] }).report);
});

test("H072 shapes and majors", () => {
  expectFindings(
    { ...base, descriptor: descriptor({ n: 24 }) },
    "H072 N = 24: kind::f16 cta_group::1 with M = 128 has multiples of 16 up to 256",
  );
  expectFindings(
    { ...base, descriptor: descriptor({ m: 256 }) },
    "H072 M = 256: kind::f16 cta_group::1 has M 64, 128",
  );
  expectFindings(
    {
      ...base,
      mma: "tcgen05.mma.cta_group::1.kind::f16 [%dt], [%at], %db, %id, %pa;",
      steps: [[16n, b]],
      descriptor: descriptor({ aMajor: "mn" }),
    },
    "H072 A in tensor memory has to have K contiguous",
  );
  clean(runMma({ ...base, descriptor: descriptor({ m: 64, n: 8 }) }).report);
});

test("H073 operands beyond the window", () => {
  expectFindings(
    { ...base, steps: [[a, shared({ address: size - 1024 })]] },
    `H073 operand B reaches up to byte ${size + 1024} of the window of block rank 0, which has ${size + 16} bytes`,
  );
  expectFindings(
    { ...base, steps: [[shared({ stride: 2048 }), b]] },
    /^H073 operand A reaches up to byte 31/,
  );
  clean(runMma({ ...base, steps: [[a, shared({ address: size - 2048 })]] }).report);
});

test("H074 lanes and columns", () => {
  expectFindings(
    { ...base, d: 32 << 16 },
    "H074 D starts at lane 32; with M = 128 (layout D) it starts at lane 0",
  );
  const fromTensor = (at: bigint): MmaLaunch => ({
    ...base,
    mma: "tcgen05.mma.cta_group::1.kind::f16 [%dt], [%at], %db, %id, %pa;",
    steps: [[at, b]],
  });
  expectFindings(fromTensor(12n), "H074 D takes columns 0 to 15, A 12 to 19: they overlap");
  clean(runMma(fromTensor(16n)).report);
  const half = { ...base, descriptor: descriptor({ m: 64 }) };
  expectFindings({ ...half, d: 32 << 16 }, /^H074 D starts at lane 32; .* lane 0 or 16$/);
  clean(runMma({ ...half, d: 16 << 16 }).report);
});

test("H075 the other cta_group's allocation", () => {
  const got = seen({
    ...pair,
    edit: (text) =>
      text
        .replace("tcgen05.alloc.cta_group::2", "tcgen05.alloc.cta_group::1")
        .replace(
          "tcgen05.relinquish_alloc_permit.cta_group::2",
          "tcgen05.relinquish_alloc_permit.cta_group::1",
        )
        .replace("tcgen05.dealloc.cta_group::2", "tcgen05.dealloc.cta_group::1"),
  });
  expect(got).toContain(
    "H075 column 0 of block rank 0 was allocated with cta_group::1; this is cta_group::2",
  );
});

test("H076 the odd block issues", () => {
  expectFindings(
    { ...pair, edit: replace("or.b32 %r11, %t, %r0;", "xor.b32 %r11, %r0, 1; or.b32 %r11, %t, %r11;") },
    "H076 issued by block rank 1; block rank 0 issues for the pair",
  );
});

test("H077 scale factors that differ between the quarters", () => {
  const scaled = (change: (words: Int32Array) => void): MmaLaunch => {
    const words = new Int32Array(128 * 32).fill(0x7f7f7f7f);
    change(words);
    return {
      ...base,
      mma: "tcgen05.mma.cta_group::1.kind::mxf8f6f4.block_scale.block32 [%dt], %da, %db, %id, [%sa], [%sb], %pa;",
      tensor: [words],
      scaleA: 16,
      scaleB: 20,
      descriptor: encodeInstructionDescriptor(
        "mxf8f6f4",
        plainDescriptor({
          m: 128,
          n: 16,
          a: "e4m3",
          b: "e4m3",
          d: "f32",
          scale: { format: "ue8m0", a: 1, b: 0 },
        }),
      ),
    };
  };
  clean(runMma(scaled(() => undefined)).report);
  // Another byte of the word than factor id 1 of A: nobody reads it.
  clean(runMma(scaled((words) => words.fill(0x7f7f7f00, 64 * 32 + 16, 64 * 32 + 17))).report);
  expectFindings(
    scaled((words) => words.fill(0x7f7f807f, 64 * 32 + 16, 64 * 32 + 17)),
    "H077 factors A of row 0 are 0x7f in lane 0 and 0x80 in lane 64 of column 16",
  );
});

test("H078 the collector", () => {
  const with2 = (first: string, second: string, other = "%da"): MmaLaunch => ({
    ...base,
    mma: `tcgen05.mma.cta_group::1.kind::f16.collector::a::${first} [%dt], %da, %db, %id, %pa;
      add.u64 %x9, %da, 2; tcgen05.mma.cta_group::1.kind::f16.collector::a::${second} [%dt], ${other}, %db, %id, %pa;`,
  });
  clean(runMma(with2("fill", "lastuse")).report);
  expectFindings(with2("discard", "use"), "H078 collector::a::use with nothing in the buffer");
  expectFindings(
    with2("fill", "use", "%x9"),
    "H078 collector::a::use; the buffer was filled with another operand",
  );
});

test("H006 H033 H035 operands in shared memory", () => {
  const fence = "COPIED: fence.proxy.async.shared::cta;";
  expect(seen({ ...base, edit: replace(fence, "COPIED:") }).some((x) => x.startsWith("H033"))).toBe(true);
  // Half of the image is not copied.
  const got = seen({
    ...base,
    edit: replace(`setp.ge.u32 %p0, %r5, ${size};`, `setp.ge.u32 %p0, %r5, ${bAt};`),
  });
  expect(got).toEqual([
    `H006 operand B takes in shared address 0x${bAt.toString(16)}, which nothing has written`,
  ]);
  // The issuing thread overwrites A: before the wait while the product may still read it, after the wait when it is done.
  const early = replace("WAIT: mbarrier", "st.shared.b32 [%r1], %t;\nWAIT: mbarrier");
  expectFindings(
    { ...base, edit: early },
    /^H035 shared address 0x0 is overwritten by warp 0 while an asynchronous operation may still read it/,
  );
  const late = replace("@!%p3 bra WAIT;\n", "@!%p3 bra WAIT;\n@!%p0 st.shared.b32 [%r1], %t;\n");
  clean(runMma({ ...base, edit: late }).report);
});

test("H080 H081 H083 H084 tensor memory", () => {
  expectFindings(
    { ...base, d: 24 },
    /^H080 columns 24 to 39 of block rank 0 are used; only 0 to 31 are allocated$/,
  );
  // Nobody has filled D, and the first product adds to it.
  const unfilled = replace("tcgen05.st.sync", "@%p3 tcgen05.st.sync");
  expect(
    seen({
      ...base,
      accumulate: true,
      edit: (text) =>
        unfilled(text).replace("mov.u32 %r9, 0;\nFILL", "setp.ne.u32 %p3, %r1, %r1;\nmov.u32 %r9, 0;\nFILL"),
    }).some((x) => x.startsWith("H081")),
  ).toBe(true);
  // D is read with the product in flight, and without the fence after the wait.
  expect(
    seen({
      ...base,
      edit: replace("WAIT: mbarrier.try_wait.parity.shared::cta.b64 %p3, [%r3], 0; @!%p3 bra WAIT;", "WAIT:"),
    }).some((x) => x.startsWith("H083")),
  ).toBe(true);
  expect(
    seen({ ...base, edit: replace("bra WAIT;\ntcgen05.fence::after_thread_sync;", "bra WAIT;") }).some((x) =>
      x.startsWith("H084"),
    ),
  ).toBe(true);
});

test("columns of B that count as zero", () => {
  const zeroed = (mask: string): MmaLaunch => ({
    ...base,
    mma: `mov.b64 %x9, ${mask}; tcgen05.mma.ws.cta_group::1.kind::f16 [%dt], %da, %db, %id, %pa, %x9;`,
    shared: [ones()],
    tensor: [new Int32Array(128 * 64)],
    columns: 64,
    steps: [[a, shared({ address: 128 * 128 })]],
    descriptor: descriptor({ n: 64, maxShift: 8 }),
  });
  // Three columns zeroed, four used, beginning one column into a used run.
  const { report, tensor } = runMma(zeroed("0x0003028000000001"));
  clean(report);
  const f32 = new Float32Array(tensor[0]?.buffer ?? new ArrayBuffer(0));
  for (let column = 0; column < 64; column++) expect(f32[column]).toBe((column + 1) % 7 < 4 ? 16 : 0);
  expectFindings(
    zeroed("0x1003028000000000"),
    "H070 a shift of 16 columns: the instruction descriptor allows 8",
  );
});

/** A and up to 96 rows of B, all ones. */
function ones(): Uint8Array {
  return new Uint8Array(new Uint16Array((224 * 128) / 2).fill(0x3c00).buffer);
}

test("every rule has been met", () => {
  const here = Object.keys(rules).filter((rule) => rule >= "H070" && rule < "H080");
  expect([...found].filter((rule) => rule >= "H070" && rule < "H080").sort()).toEqual(here.sort());
});
