/** Let a scheduler ask which tile follows, instead of counting on by the number of blocks. */

import { WARP } from "@tilewright/core";
import { isElected } from "../tile/elected.ts";
import { v } from "../tile/expr.ts";
import { takeDirective, withBody } from "../tile/rewrite.ts";
import type { Buffer, Launch, Ring, Role, Stmt, TileProgram, Tiles } from "../tile/types.ts";
import type { Pass } from "./pass.ts";

/** The ring of responses and its buffer. */
const NEXT = "next";
const RESPONSES = "responses";
/** The role that asks, in one block of a cluster, where no other is to. */
const SCHEDULER = "scheduler";

/**
 * Directive `schedulerPipeline by=clc|atomic slots=S in=ROLE`, for persistent CTAs: the role asks for the tile after the one at hand when it begins with this, as soon
 * as the answer's slot is free: S tiles ahead of the slowest role at most, so that no tile is taken long before it is begun. Without `in` a warp more
 * does so, role `scheduler`, and nothing else. All roles, that one too, read every answer. Off: blocks visit tiles by stride.
 */
export const pipelineScheduler: Pass = {
  name: "pipelineScheduler",
  summary: "A scheduler asks for tiles; its responses go to all roles through a ring",
  from: "specialised",
  to: "specialised",
  run(program) {
    const taken = takeDirective(program, "schedulerPipeline");
    if (!taken) return program;
    const input = taken.program;
    const roles = input.body.filter((s): s is Role => s.kind === "role");
    const loops = roles.map((role) => role.body[0]);
    if (roles.length === 0 || !loops.every((s) => s?.kind === "tiles" && s.loop)) return input;
    // Answers come by the launch control, or by a counter in memory, whose value who asks writes into the slots itself.
    const { slots, by: transport, in: asker } = taken.args;
    const responses: Buffer = {
      name: RESPONSES,
      space: "shared",
      dtype: "s32",
      shape: [1, 4],
      slots,
      layout: { shape: [1, 4], stride: [4, 1], swizzle: null },
      own: null,
      align: 16,
    };
    const [first] = loops;
    if (first?.kind !== "tiles") return input;
    const asking = roles.find(({ name }) => name === asker);
    const scheduler: Role = {
      kind: "role",
      name: SCHEDULER,
      first: input.launch.threads / WARP,
      warps: 1,
      registers: null,
      ...(blocksOf(input.launch) > 1 ? { leader: "cluster" as const } : {}),
      body: [following({ ...first, body: [] }, true)],
    };
    const all = asking === undefined ? [...roles, scheduler] : roles;
    const ring: Ring = {
      name: NEXT,
      slots,
      buffers: [RESPONSES],
      transport,
      full: { kind: "mbarrier", arrivals: 1 },
      empty: { kind: "mbarrier", arrivals: all.reduce((sum, role) => sum + readers(role, input), 0) },
    };
    return {
      ...withBody(input, [
        ...input.body.map(
          (s): Stmt =>
            s.kind === "role" ? { ...s, body: s.body.map((stmt) => inRole(stmt, s === asking)) } : s,
        ),
        ...(asking === undefined ? [scheduler] : []),
      ]),
      launch: { ...input.launch, threads: input.launch.threads + (asking === undefined ? WARP : 0) },
      rings: [...input.rings, ring],
      buffers: [...input.buffers, responses],
    };
  },
};

/** Arrivals of a role on a response's slot: one of each of its warps, or of its one thread, in each of the blocks that run it. */
function readers({ name, warps, leader, body }: Role, program: TileProgram): number {
  if (name === SCHEDULER) return warps;
  const each = isElected(program, body) ? 1 : warps;
  return (each * blocksOf(program.launch)) / (leader ? 2 : 1);
}

const blocksOf = ({ cluster }: Launch): number => cluster[0] * cluster[1];

const inRole = (stmt: Stmt, asks: boolean): Stmt => (stmt.kind === "tiles" ? following(stmt, asks) : stmt);

/** The loop with what it takes to learn which tile follows, at the end of its body; who asks does so first of all. */
function following(tiles: Tiles, asks: boolean): Tiles {
  const { loop } = tiles;
  if (loop === null) return tiles;
  const at = v(loop.var);
  const event = (kind: "acquire" | "request" | "commit" | "next" | "release"): Stmt => ({
    kind,
    ring: NEXT,
    at,
  });
  return {
    ...tiles,
    loop: { ...loop, by: "ring", ring: NEXT },
    body: [
      ...(asks ? [event("acquire"), event("request"), event("commit")] : []),
      ...tiles.body,
      { kind: "wait", ring: NEXT, at, pending: 0 },
      event("next"),
      event("release"),
    ],
  };
}
