/**
 * A backend from outside of Tilewright, in one file: fp32 kernels with one knob, the size of a square tile.
 *
 *   tilewright run --backend ./examples/backend-fixed/index.js --arch sm_80 -m 100 -n 90 -k 70 --schedule size=32
 *   createCompiler({ backends: [fixed, simt] }).compile({ problem, target, backend: "fixed" })
 *
 * It brings its own schedule model, verdicts and legality; tile program, passes and lowering are those of the SIMT backend, which is a
 * value like any other. A backend with instructions of its own writes `tile`, `passes` and `lower` itself (docs/add-a-backend.md).
 */
import { simt } from "@tilewright/backend-simt";
import { err, ok } from "@tilewright/core";
import { defaultSchedule, intField } from "@tilewright/ir";

const sizes = [16, 32, 64];

/** Every diagnostic says where, why, and what would work. */
const refuse = (at, message, hint) => ({ code: "TW2999", kind: "unsupported", at, message, hint });

/** The SIMT schedule that a size stands for: up to 4 x 4 results a thread, a warp of 8 x 4 lanes. */
const spelled = ({ size }) => ({
  ...defaultSchedule(simt.schedule),
  tile: [size, size, 8],
  thread: size === 16 ? [2, 2] : [4, 4],
  lanes: [8, 4],
  strip: [1, 1],
  vec: 1,
  frag: 1,
  split: 1,
});

export default {
  ...simt,
  id: "fixed",
  summary: "fp32 with square tiles of one size, to show how a backend plugs in",
  schedule: {
    fields: [intField({ name: "size", summary: "edge of the square tile", default: 32, min: 16, max: 64 })],
  },
  showcase: { arch: "sm_80", dtype: "f32" },
  ladders: [],
  supports: (target) =>
    target.major >= 8
      ? ok(true)
      : err([refuse("target.arch", `fixed needs sm_80, not ${target.arch}`, "use --arch sm_80")]),
  accepts: simt.accepts,
  /** Best first: the largest tile that the smaller side fills. */
  *schedules({ m, n }) {
    const best = sizes.filter((size) => size <= Math.max(16, Math.min(m, n))).reverse();
    for (const size of best) yield { size };
  },
  check(problem, schedule, target) {
    if (!sizes.includes(schedule.size))
      return [refuse("schedule.size", `size=${schedule.size} is not built`, `sizes: ${sizes.join(", ")}`)];
    return simt.check(problem, spelled(schedule), target);
  },
  explain: () => [],
  tile: (problem, schedule, target) => simt.tile(problem, spelled(schedule), target),
};
