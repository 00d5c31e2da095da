/** Compiled code of a device's kernels. */
import { entryOf, InternalError } from "@tilewright/core";
import type { KernelProgram } from "../load/module.ts";
import type { Arena } from "../memory/arena.ts";
import type { Piece } from "./blocks.ts";
import type { CompileOptions } from "./emitter.ts";
import { createEnvironment, type Environment, type Host, type Scratch } from "./environment.ts";
import { type CompiledRegion, compileRegions, type RegionScript } from "./region.ts";

interface Compiled {
  readonly generation: number;
  readonly script: RegionScript;
  readonly regions: ReadonlyMap<Piece, CompiledRegion>;
  readonly tally: Float64Array;
}

export class CompiledKernels {
  readonly #arena: Arena;
  readonly #scratch: Scratch;
  readonly #host: Host;
  readonly #compiled = new WeakMap<KernelProgram, Map<string, Compiled>>();

  constructor(arena: Arena, scratch: Scratch, host: Host) {
    this.#arena = arena;
    this.#scratch = scratch;
    this.#host = host;
  }

  /** Kept per kernel and choice of checks, and linked again when the arena's buffer has been replaced. */
  compile(program: KernelProgram, options: CompileOptions): Compiled {
    const key = JSON.stringify(options);
    const versions = entryOf(this.#compiled, program, () => new Map<string, Compiled>());
    const known = versions.get(key);
    if (known !== undefined && known.generation === this.#arena.generation) return known;
    const tally = known?.tally ?? new Float64Array(program.kernel.instructions.length);
    const environment: Environment = createEnvironment(this.#arena, this.#host, this.#scratch, tally);
    const script =
      known?.script ??
      compileRegions(program.kernel, program.blocks, options, Object.keys(environment), this.#arena.memory);
    const { generation } = this.#arena;
    const compiled = { generation, script, regions: script.link(environment), tally };
    versions.set(key, compiled);
    return compiled;
  }
}

const notRunning = (): never => {
  throw new InternalError("generated code ran outside a launch");
};

/** The paths of generated code between launches. */
export const idlePaths = {
  global: notRunning,
  generic: notRunning,
  shared: notRunning,
  sharedFault: notRunning,
  cluster: notRunning,
  local: notRunning,
  windowFault: notRunning,
  wrongWindow: notRunning,
  unwritten: notRunning,
  clock: notRunning,
};
