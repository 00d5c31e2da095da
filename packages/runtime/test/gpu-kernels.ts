/** Kernels for tests on a GPU: well-behaved ones of sm_90, and some that misbehave on any. */

const entry = (version: string, target: string, name: string, params: string, body: string): string =>
  `.version ${version}
.target ${target}
.address_size 64
.visible .entry ${name}(${params})
{
${body}
  ret;
}
`;
const old = (name: string, params: string, body: string) => entry("7.0", "sm_70", name, params, body);
const hopper = (name: string, params: string, body: string) => entry("8.0", "sm_90", name, params, body);

export const emptyPtx = old("empty", ".param .u64 p, .param .u32 n, .param .f32 x", "");

const loadPointer = `  .reg .b64 %rd<4>;
  .reg .b32 %r<4>;
  .reg .pred %p<2>;
  ld.param.u64 %rd1, [p];
  cvta.to.global.u64 %rd1, %rd1;
`;

/** Faults and hangs, by entry; each takes a pointer to zeroed memory. */
export const badKernels = {
  hang: old(
    "hang",
    ".param .u64 p",
    `${loadPointer}AGAIN:
  ld.volatile.global.u32 %r1, [%rd1];
  setp.eq.u32 %p1, %r1, 0;
  @%p1 bra AGAIN;`,
  ),
  // An address that no allocation has.
  illegal: old(
    "illegal",
    ".param .u64 p",
    `${loadPointer}  mov.u64 %rd2, 4096;
  st.global.u32 [%rd2], 1;`,
  ),
  misaligned: old(
    "misaligned",
    ".param .u64 p",
    `${loadPointer}  ld.volatile.global.u32 %r1, [%rd1];
  cvt.u64.u32 %rd2, %r1;
  add.u64 %rd3, %rd1, %rd2;
  st.global.u32 [%rd3+1], 1;`,
  ),
  trap: old("trap", ".param .u64 p", "  trap;"),
} as const;

/** Loads the box of 32 x 8 f32 at (32, 8) and stores it densely; 256 threads. */
export const tmaPtx = hopper(
  "tma",
  ".param .align 64 .b8 map[128], .param .u64 out",
  `  .reg .b64 %rd<8>;
  .reg .b32 %r<8>;
  .reg .f32 %f<2>;
  .reg .pred %p<3>;
  .shared .align 128 .b8 tile[1024];
  .shared .align 8 .b64 bar;
  mov.u32 %r1, %tid.x;
  mov.u32 %r2, tile;
  mov.u32 %r3, bar;
  setp.ne.u32 %p1, %r1, 0;
  @%p1 bra LOADED;
  mbarrier.init.shared::cta.b64 [%r3], 1;
  fence.mbarrier_init.release.cluster;
  mbarrier.arrive.expect_tx.shared::cta.b64 %rd4, [%r3], 1024;
  mov.b64 %rd1, map;
  cvta.param.u64 %rd1, %rd1;
  mov.u32 %r4, 32;
  mov.u32 %r5, 8;
  cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%r2], [%rd1, {%r4, %r5}], [%r3];
LOADED:
  bar.sync 0;
WAIT:
  mbarrier.try_wait.parity.shared::cta.b64 %p2, [%r3], 0;
  @!%p2 bra WAIT;
  shl.b32 %r6, %r1, 2;
  add.u32 %r7, %r2, %r6;
  ld.shared.f32 %f1, [%r7];
  ld.param.u64 %rd2, [out];
  cvta.to.global.u64 %rd2, %rd2;
  mul.wide.u32 %rd3, %r1, 4;
  add.s64 %rd2, %rd2, %rd3;
  st.global.f32 [%rd2], %f1;`,
);

/** out[block] = blocks of the cluster, with the rank in it in the high half. */
export const clusterPtx = hopper(
  "ranks",
  ".param .u64 out",
  `  .reg .b64 %rd<4>;
  .reg .b32 %r<8>;
  mov.u32 %r1, %ctaid.x;
  mov.u32 %r2, %cluster_ctarank;
  mov.u32 %r3, %cluster_nctarank;
  barrier.cluster.arrive;
  barrier.cluster.wait;
  shl.b32 %r4, %r2, 16;
  or.b32 %r4, %r4, %r3;
  ld.param.u64 %rd1, [out];
  cvta.to.global.u64 %rd1, %rd1;
  mul.wide.u32 %rd2, %r1, 4;
  add.s64 %rd1, %rd1, %rd2;
  st.global.u32 [%rd1], %r4;`,
);

/** *p = *p * 3 + 1, after the kernel before it: wrong at once if it does not wait. */
export const dependentPtx = hopper(
  "dependent",
  ".param .u64 p",
  `  .reg .b64 %rd<2>;
  .reg .b32 %r<3>;
  griddepcontrol.launch_dependents;
  ld.param.u64 %rd1, [p];
  cvta.to.global.u64 %rd1, %rd1;
  griddepcontrol.wait;
  ld.global.u32 %r1, [%rd1];
  mad.lo.u32 %r2, %r1, 3, 1;
  st.global.u32 [%rd1], %r2;`,
);
