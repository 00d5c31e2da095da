/** Tensor maps as instructions meet them: found through an address, decoded once, and watched for changes without a fence. */
import { entryOf } from "@tilewright/core";
import type { AsyncOp } from "../checkers/race.ts";
import type { Instruction, Operand } from "../load/types.ts";
import { type Block, type ClusterState, hex, type Machine, type Warp } from "../machine/state.ts";
import { globalTag, paramTag } from "../memory/arena.ts";
import { decodeTensorMap, isTensorMap, type MapGeometry, tensorMapAlign, tensorMapBytes } from "./map.ts";

interface Known {
  readonly words: Int32Array;
  readonly decoded: MapGeometry | string;
}

/** Something that a warp has done, at one of its clocks; null where races are not looked for. */
interface Deed {
  readonly cluster: ClusterState;
  readonly agent: number;
  readonly clock: number;
}

/** A map that this launch has changed. Versions count changes: of the bytes, of releases, of what each warp has acquired. */
interface Changed {
  version: number;
  /** The last change; null where nobody in particular made it. */
  by: Deed | null;
  released: number;
  releasedBy: Deed | null;
  /** Of each block, by warp. */
  readonly acquired: Map<Block, Map<number, { readonly version: number; readonly by: Deed | null }>>;
}

/** What a warp does at its next instruction. */
function deedOf({ block, agent }: Warp): Deed | null {
  const { cluster, race } = block;
  if (race === null) return null;
  const { known, stride } = race.clocks;
  return { cluster, agent, clock: known[agent * stride + agent] ?? 0 };
}

/** Whether a deed comes before what a warp does next. What other clusters do is ordered in ways that nobody follows here. */
const isKnown = ({ block, agent }: Warp, deed: Deed | null): boolean =>
  deed === null ||
  block.race === null ||
  deed.cluster !== block.cluster ||
  deed.agent === agent ||
  block.race.clocks.knows(agent, deed.agent, deed.clock);

const wordsOfMap = tensorMapBytes / 4;

export class TensorMaps {
  readonly #machine: Machine;
  readonly #known = new Map<number, Known>();
  readonly #changed = new Map<number, Changed>();
  /** The last release of each warp that names no map. */
  readonly #releases = new Map<Warp, Deed | null>();
  /** Copies that have used a map, the newest of each engine. */
  readonly #uses = new Map<number, Map<number, { readonly cluster: ClusterState; readonly op: AsyncOp }>>();

  constructor(machine: Machine) {
    this.#machine = machine;
  }

  /**
   * The map that an instruction's operand names. Ends the launch with H050 where there is none: the hardware has nothing to
   * copy either. H052 where the map was changed and not acquired since.
   */
  use(warp: Warp, lane: number, instruction: Instruction, base: Operand, offset: number): MapGeometry {
    const at = this.locate(warp, lane, instruction, base, offset);
    const { arena } = this.#machine;
    const first = at >> 2;
    const known = this.#known.get(at);
    let decoded: MapGeometry | string;
    if (known?.words.every((word, k) => word === arena.words[first + k])) decoded = known.decoded;
    else {
      if (known !== undefined && this.#changed.get(at) === undefined) this.#note(at, null);
      decoded = decodeTensorMap(new DataView(arena.bytes.buffer), at);
      this.#known.set(at, { words: arena.words.slice(first, first + wordsOfMap), decoded });
    }
    const change = this.#changed.get(at);
    if (change !== undefined) this.#checkAcquired(warp, instruction, at, change);
    if (typeof decoded !== "string") return decoded;
    const why = decoded;
    return this.#refuse(warp, instruction, () => `lane ${lane} uses a tensor map at ${hex(at)}: ${why}`);
  }

  /** Arena offset of the 128 bytes that a generic address, or a variable, names. */
  locate(warp: Warp, lane: number, instruction: Instruction, base: Operand, offset: number): number {
    const machine = this.#machine;
    const low = (machine.lane(warp, base, lane) + offset) | 0;
    const inParameters = base.kind === "symbol" && base.variable.space === "param";
    const high = inParameters ? paramTag : machine.lane(warp, base, lane, 1);
    if (high === globalTag)
      return machine.global(warp, lane, instruction, low, high, tensorMapBytes, 0, tensorMapAlign);
    if (high !== paramTag)
      return this.#refuse(
        warp,
        instruction,
        () =>
          `lane ${lane} gives ${hex(high)}${(low >>> 0).toString(16).padStart(8, "0")} as a tensor map; it has to be a generic address of a parameter (cvta.param), or of global or constant memory`,
      );
    if (low % tensorMapAlign !== 0)
      return this.#refuse(
        warp,
        instruction,
        () =>
          `lane ${lane} uses a tensor map at parameter offset ${hex(low)}, no multiple of ${tensorMapAlign}`,
      );
    if (low < 0 || low > warp.paramSize - tensorMapBytes)
      return this.#refuse(
        warp,
        instruction,
        () =>
          `lane ${lane} uses a tensor map at parameter offset ${hex(low)}; there are ${warp.paramSize} bytes`,
      );
    return warp.paramBase + low;
  }

  #refuse(warp: Warp, instruction: Instruction, message: () => string): never {
    this.#machine.report("H050", instruction, warp, message);
    return this.#machine.stop();
  }

  /** H052 where the map at `at` is used by a warp that has not acquired it, or met one of its block that has. */
  #checkAcquired(warp: Warp, instruction: Instruction, at: number, change: Changed): void {
    const acquired = [...(change.acquired.get(warp.block)?.values() ?? [])].filter(
      ({ version }) => version >= change.version,
    );
    if (acquired.some(({ by }) => isKnown(warp, by))) return;
    const what = `the tensor map at ${hex(at)} has been changed`;
    this.#machine.report("H052", instruction, warp, () =>
      change.released < change.version
        ? `${what} with no fence.proxy.tensormap::generic.release or tensormap.cp_fenceproxy since by a warp that knows of it`
        : acquired.length > 0
          ? `${what}, and warp ${warp.id} has not met the warp of block ${warp.block.index.join(",")} that has executed fence.proxy.tensormap::generic.acquire on it since`
          : `${what}, and block ${warp.block.index.join(",")} has not executed fence.proxy.tensormap::generic.acquire on it since`,
    );
  }

  /** An operation copies by a map. */
  used({ object }: MapGeometry, op: AsyncOp): void {
    const uses = entryOf(this.#uses, object, () => new Map());
    uses.set(op.engine, { cluster: op.warp.block.cluster, op });
  }

  /** The bytes at `at` are changed by tensormap.replace or a copy. */
  changed(warp: Warp, instruction: Instruction, at: number): void {
    this.#note(at, deedOf(warp));
    this.#checkUses(warp, instruction, at, "is changed");
  }

  /** H091 where a copy that uses the map at `at` may still be under way for all that a warp knows which changes it, or sees it changed. */
  #checkUses(warp: Warp, instruction: Instruction, at: number, how: string): void {
    const { race, cluster } = warp.block;
    const uses = this.#uses.get(at);
    if (race === null || uses === undefined) return;
    for (const use of uses.values())
      if (use.cluster === cluster && !race.clocks.knowsExecuted(warp.agent, use.op.engine, use.op.clock))
        this.#machine.report(
          "H091",
          instruction,
          warp,
          () =>
            `the tensor map at ${hex(at)} ${how} while a copy of warp ${use.op.warp.id} that uses it may still be under way: ${use.op.instruction.text}`,
        );
    uses.clear();
  }

  #note(at: number, by: Deed | null): void {
    const change = this.#changed.get(at);
    if (change === undefined)
      this.#changed.set(at, { version: 1, by, released: 0, releasedBy: null, acquired: new Map() });
    else {
      change.version += 1;
      change.by = by;
    }
  }

  /**
   * Plain stores change a map as well (a copy of one into a workspace, say), which nobody sees until it is acquired or used:
   * by then whoever released it has been met.
   */
  #notice(warp: Warp, instruction: Instruction, at: number): void {
    const known = this.#known.get(at);
    const { words } = this.#machine.arena;
    const first = at >> 2;
    if (known === undefined || known.words.every((word, k) => word === words[first + k])) return;
    this.#known.delete(at);
    this.#note(at, null);
    this.#checkUses(warp, instruction, at, "has been changed by stores");
    const by = [...this.#releases.values()].find((deed) => isKnown(warp, deed));
    const change = this.#changed.get(at);
    if (by === undefined || change === undefined) return;
    change.released = change.version;
    change.releasedBy = by;
  }

  /** A release by a warp: all changes that it knows of may be acquired. */
  release(warp: Warp, at: number | null): void {
    if (at === null) this.#releases.set(warp, deedOf(warp));
    for (const [where, change] of this.#changed) {
      if ((at !== null && where !== at) || !isKnown(warp, change.by)) continue;
      if (change.released === change.version && isKnown(warp, change.releasedBy)) continue;
      change.released = change.version;
      change.releasedBy = deedOf(warp);
    }
  }

  /** A warp acquires the map at `at` as it was released last, if it knows of that. */
  acquire(warp: Warp, instruction: Instruction, at: number): void {
    this.#notice(warp, instruction, at);
    const change = this.#changed.get(at);
    if (change === undefined || !isKnown(warp, change.releasedBy)) return;
    const ofBlock = change.acquired.get(warp.block) ?? new Map();
    change.acquired.set(warp.block, ofBlock);
    ofBlock.set(warp.agent, { version: change.released, by: deedOf(warp) });
  }

  /** Report bytes that are no tensor map, where an instruction changes one. Returns whether they are. */
  check(warp: Warp, instruction: Instruction, at: number): boolean {
    if (isTensorMap(new DataView(this.#machine.arena.bytes.buffer), at)) return true;
    this.#machine.report(
      "H050",
      instruction,
      warp,
      () => `the 128 bytes at ${hex(at)} that warp ${warp.id} changes are no tensor map`,
    );
    return false;
  }
}

const ofMachine = new WeakMap<Machine, TensorMaps>();

/** The maps of a launch. */
export const tensorMapsOf = (machine: Machine): TensorMaps =>
  entryOf(ofMachine, machine, () => new TensorMaps(machine));
