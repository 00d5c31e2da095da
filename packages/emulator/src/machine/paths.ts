/** The slow paths of memory accesses: find out what is wrong with an access, report it, and say where it goes instead. */
import type { Findings } from "../checkers/findings.ts";
import type { RuleId } from "../checkers/rules.ts";
import type { Instruction, Register } from "../load/types.ts";
import { type Arena, globalTag, localTag, paramTag, sharedTag, sinkOffset } from "../memory/arena.ts";
import { describeMbarrier, mbarrierIn } from "./mbarriers.ts";
import { hex, placeOf, type Warp } from "./state.ts";

const windowNames: Readonly<Record<number, string>> = {
  [globalTag]: "global",
  [sharedTag]: "shared",
  [localTag]: "local",
  [paramTag]: "parameter",
};

const verbs = ["reads", "writes", "updates"] as const;

/** The address as a kernel would print it. */
const address64 = (low: number, high: number): string =>
  `0x${(high >>> 0).toString(16)}${(low >>> 0).toString(16).padStart(8, "0")}`;

export class MemoryPaths {
  readonly #arena: Arena;
  readonly #findings: Findings;
  readonly #instructions: readonly Instruction[];
  readonly #registers: readonly Register[];
  readonly #stop: () => never;
  readonly #clock: () => number;

  constructor(fields: {
    readonly arena: Arena;
    readonly findings: Findings;
    readonly instructions: readonly Instruction[];
    readonly registers: readonly Register[];
    readonly stop: () => never;
    readonly clock: () => number;
  }) {
    this.#arena = fields.arena;
    this.#findings = fields.findings;
    this.#instructions = fields.instructions;
    this.#registers = fields.registers;
    this.#stop = fields.stop;
    this.#clock = fields.clock;
  }

  clock(): number {
    return this.#clock();
  }

  /** An access that hardware would fault on: ends the launch, or is skipped when its check is off. */
  #fault(
    rule: "H001" | "H002" | "H003" | "H004" | "H043",
    w: Warp,
    index: number,
    message: () => string,
  ): number {
    this.#report(rule, w, index, message);
    if (this.#findings.shows(rule)) this.#stop();
    return this.#sink();
  }

  #sink(): number {
    this.#arena.bytes.fill(0, sinkOffset, sinkOffset + 64);
    return sinkOffset;
  }

  #report(rule: RuleId, w: Warp, index: number, message: () => string): void {
    this.#findings.add(rule, this.#instructions[index] ?? null, placeOf(w), message);
  }

  global(
    w: Warp,
    lane: number,
    index: number,
    low: number,
    high: number,
    size: number,
    mode: number,
  ): number {
    const at = low >>> 0;
    const what = (): string => `lane ${lane} ${verbs[mode]} ${size} bytes at ${address64(low, high)}`;
    if (high !== globalTag) {
      const window = windowNames[high];
      if (window !== undefined && high !== 0)
        return this.#fault("H003", w, index, () => `${what()}, which is a ${window} address`);
      return this.#fault("H001", w, index, () => `${what()}, which is no device address`);
    }
    if ((at & (size - 1)) !== 0)
      return this.#fault("H004", w, index, () => `${what()}, which is no multiple of ${size}`);
    const { shadow } = this.#arena;
    let initialised = true;
    for (let k = at; k < at + size; k++) {
      const byte = shadow[k >> 2] ?? 0;
      if (k >= w.globalTop || ((byte >> (4 + (k & 3))) & 1) === 0)
        return this.#outside(w, index, what, at, size);
      if (((byte >> (k & 3)) & 1) === 0) initialised = false;
    }
    if (!initialised) {
      if (mode !== 1) {
        const found = this.#arena.find(at, size);
        this.#report("H005", w, index, () =>
          found === undefined
            ? `${what()}, never written`
            : `${what()}, byte ${at - found.offset} of ${describe(found)}, never written`,
        );
      }
      if (mode !== 0) this.#arena.markInitialised(at, size);
    }
    return at;
  }

  #outside(w: Warp, index: number, what: () => string, at: number, size: number): number {
    const near = this.#arena.nearest(at);
    if (near !== null && !near.allocation.live && near.distance === 0)
      return this.#fault(
        "H002",
        w,
        index,
        () => `${what()}, in ${describe(near.allocation)}, which has been freed`,
      );
    return this.#fault("H001", w, index, () => {
      if (near === null) return `${what()}; nothing is allocated`;
      const { allocation } = near;
      const end = allocation.offset + allocation.size;
      const where =
        at + size > end
          ? `${at + size - end} bytes past the end of`
          : `${allocation.offset - at} bytes before`;
      return `${what()}, ${where} ${describe(allocation)}`;
    });
  }

  generic(
    w: Warp,
    lane: number,
    index: number,
    low: number,
    high: number,
    size: number,
    mode: number,
    strong: number,
  ): number {
    switch (high) {
      case sharedTag: {
        const offset = (low - w.sharedAddress) | 0;
        const own = (offset & (size - 1)) === 0 && offset >>> 0 <= w.sharedSize - size;
        const at = own
          ? this.shared(w, lane, index, w.sharedBase + offset, size, mode)
          : this.cluster(w, lane, index, low, 0, size, mode);
        if (at === sinkOffset) return at;
        const { race } = w.block;
        if (race !== null) {
          if (strong !== 0) race.strong(w, lane, at, size, index, mode, strong);
          else if (mode === 0) race.read(w, lane, at, size, index);
          else race.write(w, lane, at, size, index);
        }
        return at;
      }
      case localTag: {
        if ((low & (size - 1)) !== 0 || low >>> 0 > w.localStride - size)
          return this.windowFault(w, lane, index, low, size, "local");
        return this.local(w, lane, index, w.localBase + lane * w.localStride + low, size, mode);
      }
      case paramTag: {
        if (mode !== 0)
          return this.#fault(
            "H003",
            w,
            index,
            () => `lane ${lane} ${verbs[mode]} parameter memory, which is read-only`,
          );
        if ((low & (size - 1)) !== 0 || low >>> 0 > w.paramSize - size)
          return this.windowFault(w, lane, index, low, size, "param");
        return w.paramBase + low;
      }
      default:
        return this.global(w, lane, index, low, high, size, mode);
    }
  }

  shared(w: Warp, lane: number, index: number, at: number, size: number, mode: number): number {
    return this.#window(w, lane, index, at, size, mode, "H006", "shared", at - w.sharedBase);
  }

  /** A shared::cluster access outside the block's own window: another block's, or a fault. */
  cluster(
    w: Warp,
    lane: number,
    index: number,
    address: number,
    high: number,
    size: number,
    mode: number,
  ): number {
    const rank = address >>> 24;
    const offset = address & 0xffffff;
    const { blocks } = w.block.cluster;
    const block = blocks[rank];
    if (high !== 0 || block === w.block) return this.sharedFault(w, lane, index, address, high, size);
    const what = (): string =>
      `lane ${lane} ${verbs[mode]} ${size} bytes at shared::cluster address ${hex(address)}`;
    if (block === undefined)
      return this.#fault("H001", w, index, () => `${what()}; the cluster has ${blocks.length} blocks`);
    if ((offset & (size - 1)) !== 0)
      return this.#fault("H004", w, index, () => `${what()}, which is no multiple of ${size}`);
    if (offset > block.sharedSize - size)
      return this.#fault("H001", w, index, () => `${what()}; a block has ${block.sharedSize} bytes`);
    if (block.exited)
      return this.#fault("H043", w, index, () => `${what()}; block ${rank} of the cluster has exited`);
    w.block.race?.remote(w, block, index, mode !== 0);
    return this.#window(w, lane, index, block.sharedBase + offset, size, mode, "H006", "shared", address);
  }

  local(w: Warp, lane: number, index: number, at: number, size: number, mode: number): number {
    return this.#window(
      w,
      lane,
      index,
      at,
      size,
      mode,
      "H007",
      "local",
      at - w.localBase - lane * w.localStride,
    );
  }

  /** Inside its window: only initialisation is left to look at. */
  #window(
    w: Warp,
    lane: number,
    index: number,
    at: number,
    size: number,
    mode: number,
    rule: "H006" | "H007",
    space: string,
    shown: number,
  ): number {
    const barrier = rule === "H006" ? mbarrierIn(w.block.cluster, at, size) : null;
    if (barrier !== null) {
      this.#report("H042", w, index, () => `lane ${lane} ${verbs[mode]} ${describeMbarrier(barrier)}`);
      return at;
    }
    if (mode !== 1)
      for (let k = at; k < at + size; k++) {
        if (this.#arena.isInitialised(k)) continue;
        this.#report(
          rule,
          w,
          index,
          () =>
            `lane ${lane} ${verbs[mode]} ${size} bytes of ${space} memory at ${hex(shown)}, never written`,
        );
        break;
      }
    if (mode !== 0) this.#arena.markInitialised(at, size);
    return at;
  }

  sharedFault(w: Warp, lane: number, index: number, address: number, high: number, size: number): number {
    const offset = (address - w.sharedAddress) | 0;
    if (high !== 0)
      return this.#fault("H003", w, index, () => {
        const window = windowNames[high];
        const kind = window === undefined ? "a 64-bit value" : `a generic ${window} address`;
        return `lane ${lane} uses ${address64(address, high)}, ${kind}, as a shared address`;
      });
    if (offset >>> 24 !== 0 && address >>> 24 !== w.sharedAddress >>> 24 && address >>> 24 < 16)
      return this.#fault(
        "H003",
        w,
        index,
        () =>
          `lane ${lane} uses ${hex(address)}, an address in block ${address >>> 24} of the cluster, as its own`,
      );
    if (offset >>> 0 > w.sharedSize - size)
      return this.#fault(
        "H001",
        w,
        index,
        () =>
          `lane ${lane} accesses ${size} bytes at shared address ${hex(offset)}; the block has ${w.sharedSize} bytes`,
      );
    return this.#fault(
      "H004",
      w,
      index,
      () =>
        `lane ${lane} accesses ${size} bytes at shared address ${hex(offset)}, which is no multiple of ${size}`,
    );
  }

  windowFault(
    w: Warp,
    lane: number,
    index: number,
    address: number,
    size: number,
    window: "local" | "param",
  ): number {
    const limit = window === "local" ? w.localStride : w.paramSize;
    const name = window === "local" ? "local" : "parameter";
    if (address >>> 0 > limit - size)
      return this.#fault(
        "H001",
        w,
        index,
        () => `lane ${lane} accesses ${size} bytes at ${name} address ${hex(address)}; there are ${limit}`,
      );
    return this.#fault(
      "H004",
      w,
      index,
      () =>
        `lane ${lane} accesses ${size} bytes at ${name} address ${hex(address)}, which is no multiple of ${size}`,
    );
  }

  wrongWindow(w: Warp, lane: number, index: number, low: number, high: number, space: string): void {
    // A null pointer may be converted; using it faults.
    if (low === 0 && high === 0) return;
    const window = windowNames[high] ?? "unknown";
    this.#report(
      "H003",
      w,
      index,
      () => `lane ${lane} converts ${address64(low, high)} (${window}) to a ${space} address`,
    );
  }

  unwritten(w: Warp, lane: number, index: number, register: number): void {
    this.#report(
      "H008",
      w,
      index,
      () => `lane ${lane} reads ${this.#registers[register]?.name ?? "a register"}, which it has not written`,
    );
  }
}

const describe = (allocation: {
  readonly size: number;
  readonly offset: number;
  readonly name: string | null;
}): string =>
  `${allocation.name === null ? "the allocation" : `variable ${allocation.name}`} of ${allocation.size} bytes at ${address64(allocation.offset, globalTag)}`;
