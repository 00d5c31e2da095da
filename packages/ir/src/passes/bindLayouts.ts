/** Give every shared tile its layout: the axis that fragments run along is contiguous, padded or swizzled as the bank oracle says. */

import { isPowerOfTwo, type Target } from "@tilewright/core";
import type { AccessWidth } from "../layout/banks.ts";
import { chooseLayout, swizzleCandidates, type TileAccess } from "../layout/choose.ts";
import { footprint, panelled, withPadding } from "../layout/layout.ts";
import { swizzlePeriod, tensorSwizzles } from "../layout/swizzle.ts";
import type { Layout, Swizzle } from "../layout/types.ts";
import { contiguousAxis, sharedAccesses, usesAtom } from "../tile/accesses.ts";
import { elementBytes } from "../tile/elementBytes.ts";
import { eachStmt, takeDirective } from "../tile/rewrite.ts";
import { placeShared, sharedRegions } from "../tile/sharedMemory.ts";
import type { Buffer, TileProgram } from "../tile/types.ts";
import type { Pass } from "./pass.ts";

/** What each mode may use against bank conflicts; `plain` is the off state. */
const remedies: Readonly<Record<string, { readonly pad: boolean; readonly swizzle: boolean }>> = {
  plain: { pad: false, swizzle: false },
  pad: { pad: true, swizzle: false },
  swizzle: { pad: false, swizzle: true },
  auto: { pad: true, swizzle: true },
};

/** Directive `smem mode=plain|pad|swizzle|auto`; absent means plain. */
export const bindLayouts: Pass = {
  name: "bindLayouts",
  summary: "Shared tiles get the layout with the fewest bank conflicts",
  from: "specialised",
  to: "specialised",
  run(program, target) {
    const taken = takeDirective(program, "smem");
    const mode = taken ? taken.args.mode : "plain";
    const input = taken?.program ?? program;
    if (!input.buffers.some((b) => b.space === "shared" && b.layout === null)) return input;
    const most = target.limits.maxSmemPerBlock;
    let bound = input;
    // A swizzle's period is what its tile is aligned to, which costs tiles behind it bytes.
    for (const period of PERIODS) {
      bound = {
        ...input,
        buffers: input.buffers.map((b) =>
          b.space === "shared" && b.layout === null
            ? { ...b, layout: layoutFor(input, target, b, mode, period) }
            : b,
        ),
      };
      if (placeShared(sharedRegions(bound)).bytes <= most) break;
    }
    return bound;
  },
};

/** Longest periods of swizzles, in bytes, of which the first that leaves room for everything is taken: any, eight rows of banks, none. */
const PERIODS = [Number.POSITIVE_INFINITY, 1024, 0] as const;

function layoutFor(
  program: TileProgram,
  target: Target,
  buffer: Buffer,
  mode: string,
  period: number,
): Layout {
  const contiguous = contiguousAxis(program, buffer.name);
  const plain = withPadding(buffer.shape, contiguous, 0);
  const bytes = elementBytes(buffer);
  const remedy = remedies[mode];
  if (!remedy || mode === "plain") return plain;
  // Every shared buffer may take its even share of the block's memory, and what it needs without padding; operands are the only large ones.
  const tiles = program.buffers.filter((b) => b.space === "shared").length;
  // A swizzle's address is a few constants away from the thread's only where tile and threads are powers of two.
  const cheap = [...buffer.shape, program.launch.threads].every(isPowerOfTwo);
  const choice = chooseLayout({
    shape: buffer.shape,
    contiguous,
    elementBytes: bytes,
    accesses: tileAccesses(program, buffer.name, bytes),
    maxBytes: Math.max(
      Math.floor(target.limits.maxSmemPerBlock / tiles / buffer.slots),
      footprint(plain, bytes),
    ),
    ...(remedy.pad ? {} : { paddings: [0] }),
    ...(remedy.swizzle && (cheap || !remedy.pad) && period > 0
      ? {
          ...atomSwizzles(program, plain, bytes, period),
          others: stagedPanels(program, buffer, contiguous),
        }
      : { swizzles: [] }),
  });
  return choice?.layout ?? plain;
}

/** Units of 16 bytes suit vector accesses; fragments of matrix instructions that are loaded word by word want whole runs of 8 elements. */
function atomSwizzles(
  program: TileProgram,
  plain: Layout,
  bytes: number,
  period: number,
): { readonly swizzles?: readonly Swizzle[] } {
  const all = footprint(plain, bytes);
  if (!usesAtom(program)) return {};
  const swizzles = [16, 32, 64].flatMap((unit) => swizzleCandidates(unit, all));
  return { swizzles: swizzles.filter((swizzle) => swizzlePeriod(swizzle) <= period) };
}

/** A tile that D passes through may have panels of whole rows of its warps, which a swizzle of their span suits. */
function stagedPanels(program: TileProgram, buffer: Buffer, contiguous: 0 | 1): readonly Layout[] {
  const staged = eachStmt(program.body).some((s) => s.kind === "epilogue" && s.via?.buffer === buffer.name);
  const bytes = elementBytes(buffer);
  return [128, 64, 32].flatMap((span) => {
    const extent = span / bytes;
    const swizzle = tensorSwizzles[`${span as 128 | 64 | 32}B`];
    return staged && buffer.shape[contiguous] % extent === 0
      ? [panelled(buffer.shape, contiguous, extent, swizzle)]
      : [];
  });
}

/** The accesses of a shared tile in the oracle's terms, weighted by how often a thread runs them per K chunk. */
export const tileAccesses = (program: TileProgram, buffer: string, bytes: number): readonly TileAccess[] =>
  sharedAccesses(program, buffer).map((access) => ({
    name: access.label,
    width: (access.vector * bytes) as AccessWidth,
    lanes: access.lanes,
    weight: access.count,
  }));
