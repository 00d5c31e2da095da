/** Hopper kernels, built up: from all warps doing everything to roles, large tiles and blocks that stay. */
import type { Ladder } from "@tilewright/ir";

const large = [4096, 4096, 4096] as const;
const kMajor = { b: { layout: "col" } } as const;

export const ladders: readonly Ladder[] = [
  {
    name: "hopper",
    summary:
      "bf16, A row-major and B column-major: wgmma, bulk copies by a producer, roles, 128x256, stores in bulk, blocks that stay",
    request: { dtype: "bf16", ...kMajor },
    sizes: { gpu: large, emulator: [256, 256, 128] },
    steps: [
      {
        name: "threads",
        summary: "the math threads copy, meet and multiply by wgmma; one warpgroup",
        change:
          "tile=64x128x64 warpgroups=1x1 stages=1 copy=direct regs=none swizzle=128B cluster=1x1 multicast=off raster=row sched=tiles peel=off epi=direct storeElements=2 guards=on",
      },
      {
        name: "bulk",
        summary: "a producer issues bulk tensor copies into a ring of four slots",
        change: "copy=tma stages=4",
      },
      {
        name: "two groups",
        summary: "two math warpgroups share a tile of 128 x 128",
        change: "tile=128x128x64 warpgroups=2x1",
      },
      {
        name: "wide",
        summary: "128 x 256: the widest instruction, fewest bytes a product",
        change: "tile=128x256x64",
      },
      { name: "store", summary: "D through swizzled shared memory, by bulk stores", change: "epi=tma" },
      {
        name: "stay",
        summary: "blocks stay: the next tile's copies run during the epilogue",
        change: "sched=persistent",
      },
      { name: "raster", summary: "16 tile rows at a time share tiles in L2", change: "raster=grouped:16" },
      {
        name: "peel",
        summary: "the first chunk overwrites the accumulator, the others add",
        change: "peel=on",
      },
    ],
  },
  {
    name: "cluster",
    summary: "bf16 as above, what clusters and register budgets change",
    request: { dtype: "bf16", ...kMajor },
    sizes: { gpu: large, emulator: [256, 512, 128] },
    steps: [
      { name: "alone", summary: "the default: no cluster, one producer warp", change: "tile=128x256x64" },
      {
        name: "budgets",
        summary: "a producer warpgroup gives registers to the math warpgroups",
        change: "regs=24/240",
      },
      { name: "multicast", summary: "two blocks share the copies of B", change: "cluster=2x1 multicast=b" },
      {
        name: "other",
        summary: "two blocks share the copies of A instead",
        change: "cluster=1x2 multicast=a",
      },
    ],
  },
];
