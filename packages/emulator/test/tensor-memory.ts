/** Kernels of one block, or of a pair, that have tensor memory: what the tests of tcgen05 beside mma have in common. */
import type { LaunchConfig, LaunchReport } from "../src/index.ts";
import { machine } from "./support.ts";

export interface TensorKernel {
  /** Runs in all warps; sees %t, %warp, %ta (allocation), %tw (the same, lanes of the warp), %out and %in. */
  readonly body: string;
  readonly columns?: number;
  readonly group?: 1 | 2;
  readonly threads?: number;
  /** Text for other parts of the frame; null leaves a part out. */
  readonly alloc?: string | null;
  readonly publish?: string | null;
  readonly retire?: string | null;
  readonly dealloc?: string | null;
  readonly target?: string;
  readonly directives?: string;
}

export const vector = (name: string, count: number): string =>
  `{${Array.from({ length: count }, (_, k) => `%${name}${k}`).join(",")}}`;

/** Text of kernel `k`; shared memory `s` of 16 KiB for the body, and 256 bytes behind for the frame. */
function tensorKernel(kernel: TensorKernel): string {
  const { body, columns = 128, group = 1, target = "sm_100a", directives = "" } = kernel;
  const g = `cta_group::${group}`;
  const everyone =
    group === 1
      ? "bar.sync 0;"
      : "barrier.cluster.arrive.release.aligned; barrier.cluster.wait.acquire.aligned;";
  const part = (given: string | null | undefined, usual: string): string =>
    given === undefined ? usual : (given ?? "");
  return `.version 8.8
.target ${target}
.address_size 64
.shared .align 1024 .b8 s[16640];
.visible .entry k(.param .u64 pout, .param .u64 pin)
${directives}
{
.reg .pred %p<8>; .reg .b16 %h<4>; .reg .b32 %r<32>; .reg .b32 %v<128>; .reg .b32 %u<128>; .reg .b64 %d<16>; .reg .f32 %f<4>;
.reg .b32 %t; .reg .b32 %warp; .reg .b32 %ta; .reg .b32 %tw; .reg .b32 %bar; .reg .b32 %slot; .reg .b32 %rank; .reg .pred %first; .reg .pred %one; .reg .b64 %out; .reg .b64 %in; .reg .b128 %q0;
mov.u32 %t, %tid.x; shr.u32 %warp, %t, 5; mov.u32 %rank, %cluster_ctarank;
setp.ne.u32 %first, %warp, 0; setp.eq.u32 %one, %t, 0;
ld.param.u64 %out, [pout]; ld.param.u64 %in, [pin];
mov.u32 %slot, s; add.u32 %slot, %slot, 16384; add.u32 %bar, %slot, 16;
@!%one bra READY;
mbarrier.init.shared::cta.b64 [%bar], 1; fence.mbarrier_init.release.cluster;
READY:
@%first bra SHARED;
${part(kernel.alloc, `tcgen05.alloc.${g}.sync.aligned.shared::cta.b32 [%slot], ${columns}; tcgen05.relinquish_alloc_permit.${g}.sync.aligned;`)}
SHARED:
${part(kernel.publish, `tcgen05.fence::before_thread_sync; ${everyone} tcgen05.fence::after_thread_sync;`)}
ld.shared.b32 %ta, [%slot]; shl.b32 %tw, %warp, 21; add.u32 %tw, %tw, %ta;
${body}
${part(kernel.retire, `tcgen05.fence::before_thread_sync; ${everyone} tcgen05.fence::after_thread_sync;`)}
@%first bra END;
${part(kernel.dealloc, `tcgen05.dealloc.${g}.sync.aligned.b32 %ta, ${columns};`)}
END: ret;
}
`;
}

export interface TensorRun {
  readonly report: LaunchReport;
  readonly out: Int32Array;
}

/** Launch one cluster: a block, or a pair for cta_group::2. `words` 32-bit words of output, `input` bytes of input. */
export function runTensor(
  kernel: TensorKernel,
  words: number,
  input: Uint8Array = new Uint8Array(16),
  config: Partial<LaunchConfig> = {},
): TensorRun {
  const { group = 1, threads = 128 } = kernel;
  const device = machine(tensorKernel(kernel));
  const out = device.put(new Int32Array(words));
  const from = device.put(input);
  const report = device.launch("k", group, threads, [out, from], {
    fuel: 1e6,
    ...(group === 2 ? { cluster: [2, 1, 1] as const } : {}),
    ...config,
  });
  return { report, out: device.i32(out, words) };
}

/** Statements that fill `count` columns from `column` on of the warp's lanes with lane << 16 | column. */
export const fill = (count: number, column = 0): string => `
mov.u32 %r30, %t; and.b32 %r30, %r30, 127; shl.b32 %r30, %r30, 16;
${Array.from({ length: count }, (_, k) => `add.u32 %u${k}, %r30, ${column + k};`).join(" ")}
add.u32 %r31, %tw, ${column};
tcgen05.st.sync.aligned.32x32b.x${count}.b32 [%r31], ${vector("u", count)};
tcgen05.wait::st.sync.aligned;`;

/** Statements that write registers v0 to v(count-1) of each thread to out[thread][register]. */
export const save = (count: number, name = "v"): string => `
mul.wide.u32 %d0, %t, ${4 * count}; add.u64 %d0, %out, %d0;
${Array.from({ length: count }, (_, k) => `st.global.u32 [%d0+${4 * k}], %${name}${k};`).join(" ")}`;
