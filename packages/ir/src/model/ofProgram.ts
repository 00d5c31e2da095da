/** The model's kernel of a bound program: what the IR says, and nothing of the schedule that it came from. */
import { findAtom } from "../atoms/atoms.ts";
import { sizeOf } from "../dtype.ts";
import { eachStmt } from "../tile/rewrite.ts";
import type { Factor, Stmt, TileProgram } from "../tile/types.ts";
import type { ModelKernel } from "./kernel.ts";
import type { Engine } from "./machine.ts";

type Copy = Extract<Stmt, { kind: "copy" }>;

const product = (factors: readonly Factor[], tiers: readonly Factor["tier"][]): number =>
  factors.reduce((size, { tier, extent }) => (tiers.includes(tier) ? size * extent : size), 1);

/** What multiplies with an atom; null where the model does not know it. */
function engineOf(name: string): Engine | null {
  if (name === "fma") return "fma";
  const feature = findAtom(name)?.feature;
  if (feature === undefined) return null;
  if (feature === "wgmma" || feature === "tcgen05") return feature;
  return feature.startsWith("mma") ? "mma" : null;
}

/**
 * `residents`: blocks an SM holds, which depends on registers that only ptxas knows. Null where the program is not bound, or multiplies in a
 * way that the model does not have.
 */
export function kernelOf(program: TileProgram, residents: number): ModelKernel | null {
  const stmts = [...eachStmt(program.body)];
  const one = <K extends Stmt["kind"]>(kind: K): Extract<Stmt, { kind: K }> | undefined =>
    stmts.find((stmt): stmt is Extract<Stmt, { kind: K }> => stmt.kind === kind);
  const [mma, tiles, epilogue] = [one("mma"), one("tiles"), one("epilogue")];
  const buffers = new Map(program.buffers.map((buffer) => [buffer.name, buffer]));
  const acc = buffers.get(mma?.acc.buffer ?? "");
  const engine = mma === undefined ? null : engineOf(mma.atom);
  if (mma === undefined || tiles === undefined || epilogue === undefined) return null;
  if (acc === undefined || acc.own === null || engine === null) return null;

  const own = acc.own;
  const threadTile = engine === "fma" ? (["register"] as const) : (["thread", "register", "atom"] as const);
  const load = stmts.find((stmt): stmt is Copy => stmt.kind === "copy" && stmt.src.buffer === "A");
  const [ring] = program.rings;
  const roles = stmts.filter((stmt) => stmt.kind === "role");
  const persistent = roles.some((role) => [...eachStmt(role.body)].includes(tiles));
  // Neighbouring lanes store neighbouring vectors.
  const lanes = product(own.cols, ["thread"]);
  return {
    engine,
    tile: [acc.shape[0], acc.shape[1], load?.src.extent[1] ?? mma.a.extent[1]],
    unit: 1,
    instruction: [product(own.rows, threadTile), product(own.cols, threadTile)],
    threads: program.launch.threads,
    stages: ring?.slots ?? 1,
    specialised: roles.length > 0,
    meets: false,
    boxBytes: 128,
    copyVector: load === undefined || load.transport === "tma" ? 0 : load.vector[0],
    multicast: program.launch.cluster,
    residents: Math.max(1, residents),
    sched: persistent ? "persistent" : "tiles",
    workers: null,
    overlap: acc.slots > 1,
    storeBytes: Math.min(32, lanes * epilogue.vector * sizeOf(program.problem.d.dtype)),
    raster: tiles.raster,
    split: tiles.split?.extent ?? 1,
  };
}
