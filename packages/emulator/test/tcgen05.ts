/**
 * A kernel that runs tcgen05.mma on prepared memory images: shared memory is filled byte by byte from one image, tensor memory
 * word by word from another and read back whole, so that layouts are the test's own business.
 */
import type { InstructionDescriptor, Tcgen05Element, Tcgen05Kind } from "@tilewright/ptx";
import type { LaunchConfig, LaunchReport } from "../src/index.ts";
import { decodeFloat } from "../src/numerics/floats.ts";
import { machine } from "./support.ts";

export interface MmaLaunch {
  readonly group: 1 | 2;
  /** The instruction, with `%dt` D, `%da` `%db` descriptors, `%at` A in tensor memory, `%id`, `%sa` `%sb` factors, `%pa` accumulate. */
  readonly mma: string;
  /** Shared memory of each block; all of one size. */
  readonly shared: readonly Uint8Array[];
  /** Words [lane][columns] of each block's tensor memory. */
  readonly tensor: readonly Int32Array[];
  readonly columns: number;
  /** Descriptors of A (or A's address in tensor memory) and B for each instruction. */
  readonly steps: readonly (readonly [bigint, bigint])[];
  readonly descriptor: number;
  readonly d?: number;
  readonly scaleA?: number;
  readonly scaleB?: number;
  /** Whether the first instruction adds to what is there. */
  readonly accumulate?: boolean;
  /** Replacements in the text, for faults. */
  readonly edit?: (text: string) => string;
  readonly target?: string;
  readonly launch?: Partial<LaunchConfig>;
}

/** Text of the kernel. */
function mmaKernel({ group, mma, columns, target = "sm_100a" }: MmaLaunch, bytes: number): string {
  const g = `cta_group::${group}`;
  const allocated = Math.max(32, 2 ** Math.ceil(Math.log2(columns)));
  const everyone =
    group === 1
      ? "bar.sync 0;"
      : "barrier.cluster.arrive.release.aligned; barrier.cluster.wait.acquire.aligned;";
  const registers = Array.from({ length: 8 }, (_, i) => `%v${i}`);
  return `.version 8.8
.target ${target}
.address_size 64
.shared .align 1024 .b8 s[${bytes + 16}];
.visible .entry k(.param .u64 pimage, .param .u64 ptensor, .param .u64 psteps, .param .u64 pout,
  .param .u32 pcount, .param .u32 pid, .param .u32 pd, .param .u32 psa, .param .u32 psb, .param .u32 pacc)
{
.reg .pred %p<4>; .reg .pred %pa; .reg .b16 %h0;
.reg .b32 %t; .reg .b32 %r<24>; .reg .b32 %v<8>; .reg .b32 %id; .reg .b32 %dt; .reg .b32 %at; .reg .b32 %sa; .reg .b32 %sb; .reg .b32 %m<8>;
.reg .b64 %x<12>; .reg .b64 %da; .reg .b64 %db;
mov.u32 %t, %tid.x; mov.u32 %r0, %cluster_ctarank; mov.u32 %r1, s; shr.u32 %r2, %t, 5;
add.u32 %r3, %r1, ${bytes}; add.u32 %r4, %r1, ${bytes + 8};
ld.param.u64 %x0, [pimage]; mul.wide.u32 %x1, %r0, ${bytes}; add.u64 %x0, %x0, %x1;
shl.b32 %r5, %t, 4;
COPY: setp.ge.u32 %p0, %r5, ${bytes}; @%p0 bra COPIED;
cvt.u64.u32 %x1, %r5; add.u64 %x1, %x0, %x1; ld.global.v4.b32 {%v0,%v1,%v2,%v3}, [%x1];
add.u32 %r6, %r1, %r5; st.shared.v4.b32 [%r6], {%v0,%v1,%v2,%v3};
add.u32 %r5, %r5, 2048; bra COPY;
COPIED: fence.proxy.async.shared::cta;
setp.ne.u32 %p0, %t, 0; @%p0 bra INIT;
mbarrier.init.shared::cta.b64 [%r3], 1; fence.mbarrier_init.release.cluster;
INIT: setp.ne.u32 %p1, %r2, 0; @%p1 bra ALLOC;
tcgen05.alloc.${g}.sync.aligned.shared::cta.b32 [%r4], ${allocated};
tcgen05.relinquish_alloc_permit.${g}.sync.aligned;
ALLOC: tcgen05.fence::before_thread_sync;
${everyone}
tcgen05.fence::after_thread_sync;
ld.shared.b32 %r7, [%r4];
shl.b32 %r8, %r2, 21; add.u32 %r8, %r8, %r7;
ld.param.u64 %x2, [ptensor]; mul.wide.u32 %x1, %r0, ${128 * columns * 4}; add.u64 %x2, %x2, %x1;
mul.wide.u32 %x1, %t, ${columns * 4}; add.u64 %x2, %x2, %x1;
mov.u32 %r9, 0;
FILL: add.u32 %r10, %r8, %r9; mul.wide.u32 %x3, %r9, 4; add.u64 %x3, %x2, %x3;
ld.global.v4.b32 {%v0,%v1,%v2,%v3}, [%x3]; ld.global.v4.b32 {%v4,%v5,%v6,%v7}, [%x3+16];
tcgen05.st.sync.aligned.32x32b.x8.b32 [%r10], {${registers.join(",")}};
add.u32 %r9, %r9, 8; setp.lt.u32 %p2, %r9, ${columns}; @%p2 bra FILL;
tcgen05.wait::st.sync.aligned;
tcgen05.fence::before_thread_sync;
${everyone}
tcgen05.fence::after_thread_sync;
or.b32 %r11, %t, %r0; setp.ne.u32 %p0, %r11, 0; @%p0 bra WAIT;
ld.param.u64 %x4, [psteps]; ld.param.u32 %r12, [pcount]; ld.param.u32 %id, [pid];
ld.param.u32 %dt, [pd]; add.u32 %dt, %dt, %r7; ld.param.u32 %sa, [psa]; add.u32 %sa, %sa, %r7;
ld.param.u32 %sb, [psb]; add.u32 %sb, %sb, %r7; ld.param.u32 %r13, [pacc]; setp.ne.u32 %pa, %r13, 0;
ISSUE: ld.global.v2.b64 {%da, %db}, [%x4]; cvt.u32.u64 %at, %da; add.u32 %at, %at, %r7;
${mma}
setp.eq.u32 %pa, %r0, %r0; add.u64 %x4, %x4, 16; sub.u32 %r12, %r12, 1; setp.ne.u32 %p2, %r12, 0; @%p2 bra ISSUE;
${
  group === 1
    ? "tcgen05.commit.cta_group::1.mbarrier::arrive::one.shared::cluster.b64 [%r3];"
    : "mov.b16 %h0, 3; tcgen05.commit.cta_group::2.mbarrier::arrive::one.shared::cluster.multicast::cluster.b64 [%r3], %h0;"
}
WAIT: mbarrier.try_wait.parity.shared::cta.b64 %p3, [%r3], 0; @!%p3 bra WAIT;
tcgen05.fence::after_thread_sync;
ld.param.u64 %x5, [pout]; mul.wide.u32 %x1, %r0, ${128 * columns * 4}; add.u64 %x5, %x5, %x1;
mul.wide.u32 %x1, %t, ${columns * 4}; add.u64 %x5, %x5, %x1;
mov.u32 %r9, 0;
READ: add.u32 %r10, %r8, %r9; mul.wide.u32 %x3, %r9, 4; add.u64 %x3, %x5, %x3;
tcgen05.ld.sync.aligned.32x32b.x8.b32 {${registers.join(",")}}, [%r10];
tcgen05.wait::ld.sync.aligned;
st.global.v4.b32 [%x3], {%v0,%v1,%v2,%v3}; st.global.v4.b32 [%x3+16], {%v4,%v5,%v6,%v7};
add.u32 %r9, %r9, 8; setp.lt.u32 %p2, %r9, ${columns}; @%p2 bra READ;
tcgen05.fence::before_thread_sync;
${everyone}
tcgen05.fence::after_thread_sync;
@%p1 bra OUT;
tcgen05.dealloc.${g}.sync.aligned.b32 %r7, ${allocated};
OUT: ret;
}
`;
}

export interface MmaResult {
  readonly report: LaunchReport;
  /** Words [lane][columns] of each block's tensor memory afterwards. */
  readonly tensor: readonly Int32Array[];
}

export function runMma(what: MmaLaunch): MmaResult {
  const { group, shared, tensor, columns, steps, descriptor, edit = (text) => text } = what;
  const bytes = shared[0]?.length ?? 0;
  const device = machine(edit(mmaKernel(what, bytes)));
  const image = new Uint8Array(bytes * group);
  shared.forEach((part, rank) => {
    image.set(part, rank * bytes);
  });
  const words = new Int32Array(128 * columns * group);
  tensor.forEach((part, rank) => {
    words.set(part, rank * 128 * columns);
  });
  const out = device.put(new Int32Array(words.length));
  const report = device.launch(
    "k",
    group,
    128,
    [
      device.put(image),
      device.put(words),
      device.put(BigUint64Array.from(steps.flat())),
      out,
      steps.length,
      descriptor >>> 0,
      what.d ?? 0,
      what.scaleA ?? 0,
      what.scaleB ?? 0,
      Number(what.accumulate ?? false),
    ],
    { ...(group === 2 ? { cluster: [2, 1, 1] as const } : {}), ...what.launch },
  );
  const after = device.i32(out, words.length);
  return {
    report,
    tensor: tensor.map((_, rank) => after.slice(rank * 128 * columns, (rank + 1) * 128 * columns)),
  };
}

// ---------------------------------------------------------------- elements

/** Bits of an element's code. */
export const codeBits = {
  f16: 16,
  bf16: 16,
  tf32: 32,
  e4m3: 8,
  e5m2: 8,
  e2m3: 6,
  e3m2: 6,
  e2m1: 4,
  u8: 8,
  s8: 8,
} as const satisfies Record<Tcgen05Element, number>;

const f32 = new Float32Array(1);
const f32Bits = new Uint32Array(f32.buffer);

export function elementValue(element: Tcgen05Element, code: number): number {
  switch (element) {
    case "u8":
      return code;
    case "s8":
      return (code << 24) >> 24;
    case "tf32":
      f32Bits[0] = code;
      return f32[0] as number;
    default:
      return decodeFloat(element, code);
  }
}

/** Codes of the integers from -4 to 4 that a format has, or any number of a middling size. */
export function codesOf(element: Tcgen05Element, integers: boolean): readonly number[] {
  const codes: number[] = [];
  if (element === "tf32") {
    for (let x = -64; x <= 64; x++) {
      f32[0] = integers ? x >> 4 : x / 37;
      codes.push((f32Bits[0] as number) & ~0x1fff);
    }
    return codes.map((x) => x >>> 0);
  }
  for (let code = 0; code < 2 ** codeBits[element]; code++) {
    const value = elementValue(element, code);
    const good = integers
      ? Number.isInteger(value) && Math.abs(value) <= 4
      : Math.abs(value) <= 2 && (value === 0 || Math.abs(value) >= 2 ** -8);
    if (good) codes.push(code);
  }
  return codes;
}

/** Bytes of a row of K codes as shared memory has them, K contiguous. */
export function packRow(kind: Tcgen05Kind, element: Tcgen05Element, codes: readonly number[]): Uint8Array {
  const bits = codeBits[element];
  const padded = (kind === "f8f6f4" || kind === "mxf8f6f4") && bits < 8;
  const out = new Uint8Array(padded ? codes.length : (codes.length * bits) / 8);
  codes.forEach((code, i) => {
    const at = padded ? (i >> 4) * 128 + (i & 15) * bits : i * bits;
    for (let b = 0; b < bits; b++)
      if (((code >>> b) & 1) === 1)
        out[(at + b) >> 3] = (out[(at + b) >> 3] as number) | (1 << ((at + b) & 7));
  });
  return out;
}

/** The same as tensor memory has them: below 8 bits in bytes, except for the kinds of 4-bit elements alone. */
export function packTensorRow(
  kind: Tcgen05Kind,
  element: Tcgen05Element,
  codes: readonly number[],
): Uint8Array {
  if (codeBits[element] >= 8 || kind === "mxf4" || kind === "mxf4nvf4") return packRow(kind, element, codes);
  return Uint8Array.from(codes, (code) => (element === "e2m1" ? code << 2 : code));
}

// ---------------------------------------------------------------- layouts of the images

export type Layout = "none" | "32B" | "64B" | "128B" | "128B/32B";
const widths = { none: 16, "32B": 32, "64B": 64, "128B": 128, "128B/32B": 128 } as const;

export interface Placed {
  readonly bytes: Uint8Array;
  /** Byte offset of each instruction's operand from the image's begin, and the descriptor's strides. */
  readonly starts: readonly number[];
  readonly leading: number;
  readonly stride: number;
}

/** XOR of a chunk's number in row `row` of a pattern, chunks of 16 bytes (of 32 for the 32-byte atoms). */
const permute = (layout: Layout, chunk: number, row: number): number => {
  switch (layout) {
    case "none":
      return chunk;
    case "32B":
      return chunk ^ ((row >> 2) & 1);
    case "64B":
      return chunk ^ ((row >> 1) & 3);
    case "128B":
      return chunk ^ (row & 7);
    case "128B/32B":
      return chunk ^ ((row & 3) << 1);
    default:
      layout satisfies never;
      return chunk;
  }
};

/** Rows of `steps` * 32 bytes with K contiguous, as TMA boxes one swizzle wide would leave them (or core matrices of 8 x 16 bytes). */
export function placeK(rows: readonly Uint8Array[], layout: Layout, steps: number): Placed {
  const width = widths[layout];
  const box = rows.length * width;
  const bytes = new Uint8Array(Math.ceil((steps * 32) / width) * box);
  rows.forEach((row, r) => {
    for (let chunk = 0; chunk < steps * 2; chunk++) {
      const across = width / 16;
      const at = Math.floor(chunk / across) * box + r * width + permute(layout, chunk % across, r & 7) * 16;
      bytes.set(row.subarray(chunk * 16, chunk * 16 + 16), at);
    }
  });
  const starts = Array.from(
    { length: steps },
    (_, s) => Math.floor((s * 32) / width) * box + ((s * 32) % width),
  );
  return { bytes, starts, leading: layout === "none" ? box : 0, stride: 8 * width };
}

/** Elements of `size` bytes with M or N contiguous: boxes one swizzle wide, one row per k. */
export function placeMn(
  element: (row: number, k: number) => Uint8Array,
  rows: number,
  perStep: number,
  size: number,
  layout: Layout,
  steps: number,
): Placed {
  const width = widths[layout];
  const high = layout === "128B/32B" ? 4 : 8;
  const across = Math.ceil((rows * size) / width);
  const atom = high * width;
  // Atoms of one k group lie side by side, k groups behind one another.
  const group = across * atom;
  const total = perStep * steps;
  const bytes = new Uint8Array((total / high) * group);
  for (let k = 0; k < total; k++)
    for (let row = 0; row < rows; row++) {
      const byte = row * size;
      const inside = byte % width;
      const at =
        Math.floor(k / high) * group +
        Math.floor(byte / width) * atom +
        (k % high) * width +
        permute(layout, inside >> 4, k % high) * 16 +
        (inside & 15);
      bytes.set(element(row, k), at);
    }
  const starts = Array.from({ length: steps }, (_, s) => ((s * perStep) / high) * group);
  return layout === "none"
    ? { bytes, starts, leading: group, stride: atom }
    : { bytes, starts, leading: atom, stride: group };
}

export const plainDescriptor = (
  fields: Partial<InstructionDescriptor> & Pick<InstructionDescriptor, "m" | "n" | "a" | "b" | "d">,
): InstructionDescriptor => ({
  aMajor: "k",
  bMajor: "k",
  negateA: false,
  negateB: false,
  saturate: false,
  maxShift: 0,
  scale: null,
  ...fields,
});
