/** What the target can hold: shared memory, threads, cluster. */
import { roundUp, sizeOf } from "@tilewright/core";
import { printLayout } from "../../layout/text.ts";
import { dsmemReduction } from "../dsmemReduction.ts";
import { blockShape, eachStmt } from "../rewrite.ts";
import { placeShared, sharedRegions } from "../sharedMemory.ts";
import { MOST_COLUMNS, TENSOR_LANES, tensorColumns, tensorTileLayout } from "../tensor.ts";
import type { Buffer, TileProgram } from "../types.ts";
import type { Verifier } from "./verifier.ts";

export const sharedMemory: Verifier = {
  name: "sharedMemory",
  code: "TW3109",
  property: "what a block has in shared memory fits the target",
  from: "staged",
  *check({ program, target }) {
    if (target === null) return;
    const regions = sharedRegions(program);
    const total = program.machine?.memory.shared ?? placeShared(regions).bytes;
    const limit = target.limits.maxSmemPerBlock;
    if (total <= limit) return;
    const list = regions.map(({ name, bytes, slots }) => `%${name} ${bytes * slots}`).join(", ");
    yield {
      at: "shared",
      message: `${total} bytes of shared memory (${list}), and ${target.arch} has ${limit} a block`,
      hint: "fewer slots or smaller tiles",
    };
  },
};

/** Whether a tile of 16-bit elements is nothing but the first factor of products. */
const isFactor = (program: TileProgram, { name, dtype }: Buffer): boolean =>
  sizeOf(dtype) === 2 &&
  eachStmt(program.body).every((stmt) => stmt.kind !== "mma" || stmt.acc.buffer !== name);

export const tensorMemory: Verifier = {
  name: "tensorMemory",
  code: "TW3130",
  property:
    "the tensor tiles of a block have f32 or s32 elements where matrix instructions put them, first factors those of 16 bits two in a word where they read them, and fit its tensor memory",
  from: "staged",
  *check({ program, target }) {
    const tiles = program.buffers.filter((b) => b.space === "tensor");
    if (tiles.length === 0) return;
    for (const tile of tiles) {
      const layout = tensorTileLayout(tile);
      const rows = blockShape(tile)[tile.lanes ?? 0];
      if (layout === null)
        yield {
          at: tile,
          message: `${rows} ${tile.lanes === 1 ? "columns" : "rows"} in the lanes of a block, and matrix instructions have ${TENSOR_LANES / 2} or ${TENSOR_LANES}`,
          hint: `${TENSOR_LANES / 2}, or a multiple of ${TENSOR_LANES}; twice that with halves in a pair`,
        };
      else if (tile.layout !== null && printLayout(tile.layout) !== printLayout(layout))
        yield {
          at: tile,
          message: `layout ${printLayout(tile.layout)}, and matrix instructions write ${printLayout(layout)}`,
          hint: `write layout ${printLayout(layout)}`,
        };
      if (sizeOf(tile.dtype) !== 4 && !isFactor(program, tile))
        yield { at: tile, message: `elements of ${tile.dtype}`, hint: "an element takes a word: f32 or s32" };
      if (tile.halves !== undefined && program.launch.pair !== true)
        yield { at: tile, message: "has halves, and the launch no pair", hint: "write `launch … pair`" };
    }
    const { columns } = tensorColumns(program);
    const limit = target?.limits.tensorMemoryColumns ?? MOST_COLUMNS;
    if (columns > limit)
      yield {
        at: "tensor",
        message: `${columns} columns of tensor memory, and ${target?.arch ?? "a block"} has ${limit}`,
        hint: "fewer slots or narrower tiles",
      };
  },
};

export const threads: Verifier = {
  name: "threads",
  code: "TW3110",
  property: "the block has whole warps within the target's limit, and clusters the target can launch",
  from: "nest",
  *check({ program, target }) {
    const { threads: count, cluster } = program.launch;
    const most = target?.limits.maxThreadsPerBlock ?? 1024;
    if (count % 32 !== 0 || count < 32 || count > most)
      yield {
        at: "launch",
        message: `${count} threads a block`,
        hint: `a multiple of 32 up to ${most}, for instance ${Math.min(most, Math.max(32, roundUp(count, 32)))}`,
      };
    const meeting = dsmemReduction(program);
    const size = cluster[0] * cluster[1] * (meeting?.split.extent ?? 1);
    const { maxClusterSize, maxWideClusterSize } = target?.limits ?? {
      maxClusterSize: size,
      maxWideClusterSize: size,
    };
    const largest = program.launch.nonPortableCluster === true ? maxWideClusterSize : maxClusterSize;
    if (target !== null && size > largest)
      yield {
        at: "launch",
        message: `a cluster of ${size} blocks, and ${target.arch} has at most ${largest}`,
        hint:
          meeting === null ? `cluster=${largest}x1` : `${largest} blocks a tile, or another way to combine`,
      };
    if (program.launch.pair === true && cluster[0] % 2 !== 0)
      yield {
        at: "launch",
        message: `pairs in clusters of ${cluster.join(" x ")} blocks`,
        hint: "the first extent of a cluster of pairs is even: cluster=2x1",
      };
  },
};
