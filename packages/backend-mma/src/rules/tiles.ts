/** Tiles: what instructions and warps divide, and how many warps a block has. */
import { type Atom, nearestMultiple } from "@tilewright/ir";
import { type MmaSchedule, threadsOf } from "../schedule.ts";
import { type Rule, rule } from "./rule.ts";

const axes = [
  { axis: "m", code: ["TW2201", "TW2203"], tile: "tileM", warp: "warpM", unit: (atom: Atom) => atom.m },
  { axis: "n", code: ["TW2202", "TW2204"], tile: "tileN", warp: "warpN", unit: (atom: Atom) => atom.n },
] as const;

export const tileRules: readonly Rule[] = [
  ...axes.map(
    ({ axis, code, warp, unit }): Rule => ({
      code: code[0],
      at: "schedule.warp",
      find: ({ s, atom }) =>
        s[warp] % unit(atom) === 0
          ? null
          : {
              message: `warp ${axis} ${s[warp]} is no multiple of the ${unit(atom)} of ${atom.shape}`,
              hint: `nearest legal: warp ${axis} ${nearestMultiple(s[warp], unit(atom))}`,
            },
    }),
  ),
  ...axes.map(
    ({ axis, code, tile, warp }): Rule => ({
      code: code[1],
      at: "schedule.tile",
      find: ({ s }) =>
        s[tile] % s[warp] === 0
          ? null
          : {
              message: `tile ${axis} ${s[tile]} is no multiple of warp ${axis} ${s[warp]}`,
              hint: `nearest legal: tile ${axis} ${nearestMultiple(s[tile], s[warp])}`,
            },
    }),
  ),
  rule("TW2205", "tile", ({ s, atom }) => {
    const unit = atom.k * s.frag;
    if (s.tileK % unit === 0) return null;
    const why = s.frag > 1 ? "an even number of steps of" : "a multiple of";
    return {
      message: `tile k ${s.tileK} is not ${why} the ${atom.k} of ${atom.shape}`,
      hint: `nearest legal: tile k ${nearestMultiple(s.tileK, unit)}`,
    };
  }),
  rule("TW2206", "warp", ({ s, target }) => {
    const threads = threadsOf(s);
    const most = target.limits.maxThreadsPerBlock;
    if (threads <= most) return null;
    return {
      message: `${threads} threads a block; ${target.arch} allows ${most}`,
      hint: `use larger warp tiles, or a tile of at most ${nearestTile(s, most)}`,
    };
  }),
];

/** The largest tile of whole warp tiles, fewer along m first. */
function nearestTile(s: MmaSchedule, mostThreads: number): string {
  const warps = mostThreads / 32;
  const n = Math.min(Math.ceil(s.warpsN), warps);
  const m = Math.max(1, Math.floor(warps / n));
  return `${m * s.warpM}x${n * s.warpN}`;
}
