// Clusters, distributed shared memory, barriers and pipelines from libcu++, TMA through cuda::ptx.
#include <cooperative_groups.h>
#include <cuda/barrier>
#include <cuda/ptx>
namespace cg = cooperative_groups;
namespace ptx = cuda::ptx;
extern "C" __global__ void __cluster_dims__(2, 1, 1) __launch_bounds__(256, 1) hopper(const __grid_constant__ char map[128], float* out, const float* in) {
  __shared__ alignas(128) float tile[64][32];
  __shared__ uint64_t bar;
  __shared__ cuda::barrier<cuda::thread_scope_block> cbar;
  auto cluster = cg::this_cluster();
  if (threadIdx.x == 0) { ptx::mbarrier_init(&bar, 1); init(&cbar, blockDim.x); ptx::fence_proxy_async(ptx::space_shared); }
  cluster.sync();
  float* remote = cluster.map_shared_rank(&tile[0][0], cluster.block_rank() ^ 1);
  remote[threadIdx.x] = in[threadIdx.x];
  auto token = cbar.arrive();
  cbar.wait(std::move(token));
  if (threadIdx.x == 0) {
    const int32_t c[2] = {0, 32};
    ptx::cp_async_bulk_tensor(ptx::space_cluster, ptx::space_global, &tile[0][0], map, c, &bar);
    ptx::cp_async_bulk(ptx::space_cluster, ptx::space_global, &tile[0][0], in, 1024, &bar);
    ptx::mbarrier_arrive_expect_tx(ptx::sem_release, ptx::scope_cta, ptx::space_shared, &bar, 64 * 32 * 4 + 1024);
  }
  while (!ptx::mbarrier_try_wait_parity(&bar, 0)) {}
  tile[threadIdx.x & 63][threadIdx.x >> 6] += 1;
  ptx::fence_proxy_async(ptx::space_shared);
  __syncthreads();
  if (threadIdx.x == 0) {
    const int32_t c[2] = {0, 0};
    ptx::cp_async_bulk_tensor(ptx::space_global, ptx::space_shared, map, c, &tile[0][0]);
    ptx::cp_async_bulk(ptx::space_global, ptx::space_shared, out, &tile[0][0], 512);
    ptx::cp_reduce_async_bulk(ptx::space_global, ptx::space_shared, ptx::op_add, (int*)out, (int*)&tile[0][0], 256);
    ptx::cp_async_bulk_commit_group();
    ptx::cp_async_bulk_wait_group_read(ptx::n32_t<0>{});
    ptx::cp_async_bulk_wait_group(ptx::n32_t<0>{});
  }
  cudaGridDependencySynchronize();
  cudaTriggerProgrammaticLaunchCompletion();
  cluster.sync();
  out[threadIdx.x + 1024] = tile[threadIdx.x & 63][3] + remote[3];
}
