// Shuffles, votes, match, reductions, atomics of every width, barriers, shared memory, inline asm with scoped labels.
#include <cooperative_groups.h>
#include <cuda/atomic>
namespace cg = cooperative_groups;

extern "C" __global__ void warp(int n, float* out, unsigned* cnt, unsigned long long* big, double* dbl) {
  __shared__ float tile[32][33];
  extern __shared__ int dyn[];
  int lane = threadIdx.x & 31;
  float v = out[threadIdx.x];
  for (int o = 16; o > 0; o >>= 1) v += __shfl_xor_sync(~0u, v, o);
  v += __shfl_up_sync(~0u, v, 1) + __shfl_down_sync(~0u, v, 2) + __shfl_sync(~0u, v, 3, 8);
  unsigned b = __ballot_sync(~0u, v > 0);
  if (__any_sync(~0u, v > 1) && !__all_sync(b, v > 2)) b |= __activemask();
  b += __match_any_sync(~0u, lane >> 2);
  int pred; b += __match_all_sync(~0u, lane, &pred); b += pred;
  tile[lane][threadIdx.x >> 5] = v;
  __syncthreads();
  b += __syncthreads_count(v > 3) + __syncthreads_or(lane == 3) + __syncthreads_and(lane < 40);
  __syncwarp();
  atomicAdd(&cnt[0], b); atomicMax(&cnt[1], b); atomicMin((int*)&cnt[2], lane); atomicExch(&cnt[3], b);
  unsigned old = atomicCAS(&cnt[4], 0u, b); old += atomicInc(&cnt[5], 31); old += atomicDec(&cnt[6], 31);
  atomicAnd(&cnt[7], b); atomicOr(&cnt[8], b); atomicXor(&cnt[9], b);
  atomicAdd(big, 1ull); atomicCAS(big + 1, 0ull, 5ull); atomicAdd(dbl, 1.5); float f = atomicAdd(out, v);
  atomicAdd(&dyn[lane], 3); atomicAdd_system(&cnt[10], 1u); atomicAdd_block(&cnt[11], 1u);
  __threadfence(); __threadfence_block(); __threadfence_system();
  cuda::atomic_ref<unsigned, cuda::thread_scope_device> ref(cnt[12]);
  ref.fetch_add(1, cuda::memory_order_acq_rel);
  while (ref.load(cuda::memory_order_acquire) == 0) __nanosleep(20);
  ref.store(2, cuda::memory_order_release);
#pragma unroll 1
  for (int i = 0; i < 2; ++i) {
    asm volatile("{\n.reg .pred p;\n.reg .b32 t, %%r1;\nmov.b32 t, %0;\nmov.b32 %%r1, t;\nLAB_WAIT:\nadd.u32 t, %%r1, 1;\nmov.b32 %%r1, t;\nsetp.lt.u32 p, t, 10;\n@p bra LAB_WAIT;\nbra DONE;\nDONE:\n}" ::"r"(lane));
    asm volatile("{.reg .pred p; LAB_WAIT: setp.ge.u32 p, %0, 0; @p bra.uni DONE; bra.uni LAB_WAIT; DONE: }" ::"r"(lane));
  }
  auto g = cg::tiled_partition<16>(cg::this_thread_block());
#if __CUDA_ARCH__ >= 800
  b += __reduce_add_sync(~0u, b) + __reduce_min_sync(~0u, (int)b);
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;\ncp.async.commit_group;\ncp.async.wait_group 0;" ::"r"((unsigned)__cvta_generic_to_shared(dyn)), "l"(out), "r"(lane & 16));
#endif
  out[threadIdx.x] = v + f + old + g.thread_rank() + g.shfl(b, 2) + tile[threadIdx.x & 31][0] + dyn[lane];
  cnt[20] = b;
  if (n < 0) { asm volatile("trap;"); }
}
