/** Tensor maps as instructions meet them: found through an address, decoded once, and watched for changes without a fence. */
import type { Instruction, Operand } from "../load/types.ts";
import { hex, type Machine, type Warp } from "../machine/state.ts";
import { globalTag, paramTag } from "../memory/arena.ts";
import { decodeTensorMap, isTensorMap, type MapGeometry, tensorMapAlign, tensorMapBytes } from "./map.ts";

interface Known {
  readonly words: Int32Array;
  readonly decoded: MapGeometry | string;
}

/** A map that this launch has changed. Versions count changes: of the bytes, of releases, of what each block has acquired. */
interface Changed {
  version: number;
  released: number;
  readonly acquired: Map<unknown, number>;
}

const wordsOfMap = tensorMapBytes / 4;

export class TensorMaps {
  readonly #machine: Machine;
  readonly #known = new Map<number, Known>();
  readonly #changed = new Map<number, Changed>();

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
      if (known !== undefined && this.#changed.get(at) === undefined) this.changed(at);
      decoded = decodeTensorMap(new DataView(arena.bytes.buffer), at);
      this.#known.set(at, { words: arena.words.slice(first, first + wordsOfMap), decoded });
    }
    const change = this.#changed.get(at);
    if (change !== undefined && (change.acquired.get(warp.block) ?? 0) < change.version)
      this.#machine.report("H052", instruction, warp, () =>
        change.released < change.version
          ? `the tensor map at ${hex(at)} has been changed with no fence.proxy.tensormap::generic.release or tensormap.cp_fenceproxy since`
          : `the tensor map at ${hex(at)} has been changed, and block ${warp.block.index.join(",")} has not executed fence.proxy.tensormap::generic.acquire on it since`,
      );
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

  /** The bytes at `at` have been changed by tensormap.replace or a copy. */
  changed(at: number): void {
    const change = this.#changed.get(at);
    if (change === undefined) this.#changed.set(at, { version: 1, released: 0, acquired: new Map() });
    else change.version += 1;
  }

  /** A release: all changes so far may be acquired. */
  release(at: number | null): void {
    for (const [where, change] of this.#changed)
      if (at === null || where === at) change.released = change.version;
  }

  /** A block acquires the map at `at` as it was released last. */
  acquire(warp: Warp, at: number): void {
    const change = this.#changed.get(at);
    if (change !== undefined) change.acquired.set(warp.block, change.released);
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
export function tensorMapsOf(machine: Machine): TensorMaps {
  let maps = ofMachine.get(machine);
  if (maps === undefined) {
    maps = new TensorMaps(machine);
    ofMachine.set(machine, maps);
  }
  return maps;
}
