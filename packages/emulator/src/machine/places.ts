/** Places for blocks: their windows in the arena, and the fresh blocks and warps that come to them. */
import { GlobalRace } from "../checkers/global-race.ts";
import { Race } from "../checkers/race.ts";
import type { RaceReport } from "../checkers/race-reports.ts";
import { type Awaited, awaitedLoads } from "../compile/awaited.ts";
import { lineOf } from "../load/types.ts";
import type { RunFields } from "./access.ts";
import type { LaunchShape, Vector } from "./shape.ts";
import { type Block, type ClusterState, placeOf, Warp } from "./state.ts";

/** Register file and shared memory start as this: a NaN as floating point, and no small integer. */
const poison = 0x7fc0dead;

/** Clusters along each axis of the grid. */
export const clusterCounts = ({ grid, cluster }: LaunchShape): Vector => [
  grid[0] / cluster[0],
  grid[1] / cluster[1],
  grid[2] / cluster[2],
];

/** Where cluster number `index` stands among the clusters, x fastest. */
export function clusterPosition(shape: LaunchShape, index: number): Vector {
  const [x, y] = clusterCounts(shape);
  return [index % x, Math.floor(index / x) % y, Math.floor(index / (x * y))];
}

const warpsOf = ({ block }: LaunchShape): number => Math.ceil((block[0] * block[1] * block[2]) / 32);

export class Places {
  readonly #fields: RunFields;
  readonly #races: Race[] = [];
  readonly #awaited: Awaited;
  readonly #report: RaceReport;
  /** The launch's checker of global memory; null where no races are looked for. */
  readonly global: GlobalRace | null;
  /** Index of each cluster that has started, in the order of the checker's numbers. */
  readonly #started: number[] = [];

  constructor(fields: RunFields) {
    this.#fields = fields;
    this.#awaited = awaitedLoads(fields.program.kernel, fields.program.blocks);
    const { arena, findings, program, shape } = fields;
    const { instructions } = program.kernel;
    this.#report = (rule, warp, site, other, message) => {
      const where = instructions[other];
      const seen = where === undefined ? "" : `; the other access is ${where.text}${lineOf(where)}`;
      // What cp.async has completed reaches wgmma without a fence on today's hardware, and compilers count on it.
      const omission = rule === "H033" && /^cp\.async\.c[ag]\b/.test(where?.mnemonic ?? "");
      findings.add(rule, instructions[site] ?? null, placeOf(warp), () => message() + seen, omission, other);
    };
    this.global = !fields.race
      ? null
      : new GlobalRace({
          arena,
          followed: fields.scratch.followed,
          pages: fields.scratch.pages,
          checked: fields.global,
          sites: instructions.length,
          report: this.#report,
          place: (cluster, agent) => this.#placeOf(cluster, agent),
          before: shape.before,
        });
  }

  /** Where an agent of the cluster with this number in the checker of global memory is. */
  #placeOf(cluster: number, agent: number): { readonly block: Vector; readonly warp: number | null } {
    const { shape } = this.#fields;
    const warps = warpsOf(shape);
    const [cx, cy, cz] = shape.cluster;
    const engine = agent >= warps * cx * cy * cz;
    const rank = engine ? 0 : Math.floor(agent / warps);
    const [x, y, z] = clusterPosition(shape, this.#started[cluster - 1] ?? 0);
    const block: Vector = [
      x * cx + (rank % cx),
      y * cy + (Math.floor(rank / cx) % cy),
      z * cz + Math.floor(rank / (cx * cy)),
    ];
    return { block, warp: engine ? null : agent % warps };
  }

  /** Cluster number `index`, in the windows of `slot`; `sampled`: its first block's shared accesses are counted. */
  start(index: number, slot: number, sampled: boolean): ClusterState {
    const { shape, area, program, arena, race } = this.#fields;
    const clusterIndex = clusterPosition(shape, index);
    const [cx, cy, cz] = shape.cluster;
    const ranks = cx * cy * cz;
    const threads = shape.block[0] * shape.block[1] * shape.block[2];
    const warpCount = warpsOf(shape);
    this.#started.push(index);
    const blocks: Block[] = [];
    const cluster: ClusterState = {
      index,
      slot,
      blocks,
      race: race ? this.#race(slot, ranks, warpCount) : null,
      mbarriers: new Map(),
      barrier: {
        arrived: new Map(),
        generation: 0,
        carried: null,
        completed: null,
        gathered: 0,
        completedAt: 0,
      },
      engines: new Map(),
    };
    for (let rank = 0; rank < ranks; rank++) {
      const inCluster: Vector = [rank % cx, Math.floor(rank / cx) % cy, Math.floor(rank / (cx * cy))];
      const place = slot * ranks + rank;
      const sharedBase = area.shared + place * area.sharedStride;
      const block: Block = {
        index: [
          clusterIndex[0] * cx + inCluster[0],
          clusterIndex[1] * cy + inCluster[1],
          clusterIndex[2] * cz + inCluster[2],
        ],
        threads,
        slot: place,
        slots: shape.resident * ranks,
        rank,
        inCluster,
        clusterIndex,
        explicitCluster: shape.explicitCluster ? 1 : 0,
        dynamicShared: shape.dynamicShared,
        reservedShared: program.kernel.reservedShared,
        warps: [],
        barriers: new Map(),
        pool: { free: 0 },
        cluster,
        sharedBase,
        sharedSize: shape.sharedBytes,
        live: warpCount,
        exited: false,
        race: cluster.race,
      };
      this.#clear(place);
      for (let id = 0; id < warpCount; id++) {
        const lanes = threads - id * 32;
        const warp = new Warp({
          block,
          id,
          registers: (area.registers + place * area.registerBytes) / 4 + id * program.slots * 32,
          sharedBase,
          sharedAddress: rank << 24,
          sharedSize: shape.sharedBytes,
          localBase: area.local + place * area.localBytes + id * 32 * program.kernel.localBytes,
          localStride: program.kernel.localBytes,
          paramBase: area.parameters,
          paramSize: program.kernel.parameterBytes,
          globalTop: arena.heapTop,
          agent: rank * warpCount + id,
          registerCount: shape.registersPerThread,
          lanes: lanes >= 32 ? -1 : (1 << lanes) - 1,
        });
        warp.sampling = sampled && rank === 0;
        block.warps.push(warp);
      }
      blocks.push(block);
    }
    return cluster;
  }

  /** The race shadow of a slot is made once and used by all clusters that come to it. */
  #race(slot: number, blocks: number, warpsPerBlock: number): Race {
    const known = this.#races[slot];
    if (known !== undefined) {
      known.reset();
      return known;
    }
    const { area } = this.#fields;
    const race = new Race({
      base: area.shared + slot * blocks * area.sharedStride,
      stride: area.sharedStride,
      blocks,
      warpsPerBlock,
      awaited: this.#awaited,
      report: this.#report,
      global: this.global,
      words: () => this.#fields.arena.words,
    });
    this.#races[slot] = race;
    return race;
  }

  /** Fresh registers, shared and local memory for the block that comes to a place. */
  #clear(place: number): void {
    const { area, arena, program, shape } = this.#fields;
    const { words } = arena;
    const registers = (area.registers + place * area.registerBytes) / 4;
    words.fill(poison, registers, registers + area.registerBytes / 4);
    const frame = program.slots * 32;
    for (const { written } of program.kernel.registers) {
      if (written === null) continue;
      for (let at = registers; at < registers + area.registerBytes / 4; at += frame)
        words.fill(0, at + written.slot * 32, at + written.slot * 32 + 32);
    }
    const shared = area.shared + place * area.sharedStride;
    words.fill(poison, shared >> 2, (shared + area.sharedStride) >> 2);
    arena.clearShadow(shared, area.sharedStride);
    arena.markAllocated(shared, shape.sharedBytes);
    for (const { offset, given = 0 } of program.kernel.givenShared)
      arena.markInitialised(shared + offset, given);
    if (area.localBytes > 0) arena.markAllocated(area.local + place * area.localBytes, area.localBytes);
  }
}
