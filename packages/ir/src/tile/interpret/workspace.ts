/**
 * The workspace of a launch, byte by byte as a program declares it. CTAs of different work tiles run in no order, so that no two things may share a byte: who comes second is told.
 */
import {
  evaluateLaunchExpr,
  type LaunchEnvironment,
  type LaunchExpr,
  launchEnvironment,
  type Problem,
} from "@tilewright/core";
import { workspaceOf } from "../launches/workspace.ts";
import type {
  ArrayDeclaration,
  Distance,
  KernelDeclaration,
  RegionDeclaration,
  RegionName,
  TileProgram,
  WorkspaceInit,
} from "../types.ts";
import { InterpretFailure, interpretCodes } from "./failure.ts";

/** Bytes of a cell, which has one value: those of the narrowest element. A wider one has its value in the first of its cells. */
export const CELL_BYTES = 2;

/** Bytes beyond which a workspace is not tried. */
const MOST_BYTES = 2 ** 27;

/** Of the device, which decides how many persistent CTAs there are, and so where what lies behind their maps begins. */
const DEVICE = { numSms: 4 };

/** A region with its numbers at one launch's sizes. */
interface PlacedRegion {
  readonly at: number;
  readonly stride: number;
  readonly each: number;
  readonly threads: number;
  readonly count: number;
}

/** Something that lies in the workspace, of which every byte is its own. */
interface Holding {
  readonly id: number;
  readonly name: string;
  /** The next launch finds it as this one has: counters, and what is added up in place. */
  readonly zero: boolean;
}

/** Before stage `machine` no statement names a place, and threads own nothing yet. */
const NOTHING = { regions: [], init: "none", end: 0 } as const;

export class Workspace {
  readonly #env: LaunchEnvironment;
  readonly #regions: ReadonlyMap<RegionName, RegionDeclaration>;
  readonly #placed = new Map<RegionName, PlacedRegion>();
  readonly #kernels: readonly KernelDeclaration[];
  readonly #init: WorkspaceInit;
  readonly #bytes: number;
  #values: Float64Array | null = null;
  /** The number of what a cell belongs to, from 1 on. */
  #holders = new Uint32Array(0);
  readonly #holdings: Holding[] = [];
  readonly #byName = new Map<string, Holding>();

  /** Of a program at one launch's sizes; what it does not declare follows from its statements. */
  constructor(program: TileProgram, problem: Problem) {
    const { launches } = program.machine ?? {};
    this.#kernels = launches?.kernels ?? [];
    const end = this.#kernels.find(({ role }) => role === "main")?.workspace ?? 0;
    const { regions, init, ...taken } =
      program.stage !== "machine" ? NOTHING : launches ? { ...launches, end } : workspaceOf(program);
    this.#env = {
      ...launchEnvironment(problem, DEVICE),
      ...Object.fromEntries(
        problem.epilogue.flatMap((step, i) =>
          "operand" in step ? [[`ldepilogue${i}`, step.operand.ld]] : [],
        ),
      ),
    };
    this.#regions = new Map(regions.map((region) => [region.name, region]));
    this.#init = init;
    this.#bytes = this.#number(taken.end);
  }

  /** An expression of the launch; NaN where a name has no value. */
  #number(expr: LaunchExpr): number {
    const value = evaluateLaunchExpr(expr, this.#env);
    return value.ok ? value.value : Number.NaN;
  }

  /** Elements from one place to the next. */
  distance({ times, sizes }: Distance): number {
    return sizes.reduce((product, name) => product * (this.#env[name] ?? 1), times);
  }

  /** Whether kernels are declared, and those beside the main one do what they do by statements. */
  get declared(): boolean {
    return this.#kernels.length > 0;
  }

  /** Of a declared region. */
  has(name: RegionName): boolean {
    return this.declared && this.#regions.has(name);
  }

  /** How the kernel that stores D has an array, or else the main one; null where none is declared. */
  array(name: string): ArrayDeclaration | null {
    const arrays = this.#kernels
      .filter(({ role }) => role !== "prepare")
      .flatMap(({ arrays }) => arrays.filter((array) => array.name === name));
    return arrays.at(-1) ?? null;
  }

  #kernel(name: string | null): KernelDeclaration | undefined {
    return this.#kernels.find((each) => (name === null ? each.role === "main" : each.name === name));
  }

  /** Threads of a CTA of a declared kernel. */
  threads(name: string | null): number {
    return this.#kernel(name)?.threads ?? 0;
  }

  /** CTAs along the axes of a kernel's grid, the main one's for null; NaN where none is declared. */
  grid(name: string | null): readonly [x: number, y: number, z: number] {
    const kernel = this.#kernel(name);
    const [x = Number.NaN, y = Number.NaN, z = Number.NaN] = kernel?.grid.map((e) => this.#number(e)) ?? [];
    return [x, y, z];
  }

  region(name: RegionName, at: string): PlacedRegion {
    const known = this.#placed.get(name);
    if (known !== undefined) return known;
    const region = this.#regions.get(name);
    if (region === undefined)
      throw new InterpretFailure(
        interpretCodes.protocol,
        at,
        `there is no region %${name} in the workspace`,
        "declare it",
      );
    const { stride = 0, each = 1, threads = 1, count = 1 } = region;
    const placed = { at: this.#number(region.at), stride, each, threads, count: this.#number(count) };
    this.#placed.set(name, placed);
    return placed;
  }

  /** Values of the cells: of bytes 2i and 2i + 1 the one at i. */
  get values(): Float64Array {
    if (this.#values !== null) return this.#values;
    if (!(this.#bytes <= MOST_BYTES))
      throw new InterpretFailure(
        interpretCodes.tooLong,
        "workspace",
        `${this.#bytes} bytes of workspace, which is more than is tried`,
        "fewer tiles",
      );
    const cells = Math.ceil(this.#bytes / CELL_BYTES);
    this.#values = new Float64Array(cells);
    this.#holders = new Uint32Array(cells);
    return this.#values;
  }

  holding(name: string, zero: boolean): Holding {
    const known = this.#byName.get(name);
    if (known !== undefined) return known;
    const made = { id: this.#holdings.length + 1, name, zero };
    this.#holdings.push(made);
    this.#byName.set(name, made);
    return made;
  }

  /** The cell at which so many bytes begin, which belong to nothing else; of what the launch finds as 0 they may be read, too. */
  claim(byte: number, bytes: number, holding: Holding, at: string): number {
    const { values } = this;
    const cell = byte / CELL_BYTES;
    const cells = bytes / CELL_BYTES;
    if (byte % bytes !== 0)
      throw new InterpretFailure(
        interpretCodes.outOfBounds,
        at,
        `${holding.name} has ${bytes} bytes at byte ${byte} of the workspace, which is no multiple of that`,
        "places that are multiples of what lies there",
      );
    if (!(cell >= 0 && cell + cells <= values.length))
      throw new InterpretFailure(
        interpretCodes.outOfBounds,
        at,
        `${holding.name} lies at byte ${byte} of the workspace, which has ${this.#bytes}`,
        "regions that end where the workspace does, or before",
      );
    for (let i = cell; i < cell + cells; i++) {
      const holder = this.#holders[i] ?? 0;
      if (holder === holding.id) continue;
      if (holder !== 0) this.#shared(i, holding, at);
      if (holding.zero && this.#init === "none")
        throw new InterpretFailure(
          interpretCodes.uninitialised,
          at,
          `${holding.name} is what the workspace has before the launch`,
          "workspace init zeroOnce",
        );
      this.#holders[i] = holding.id;
    }
    return cell;
  }

  /** The same of what has been written there. */
  held(byte: number, bytes: number, holding: Holding, at: string): number {
    const cell = byte / CELL_BYTES;
    const holder = this.#holders[cell] ?? 0;
    if (holder === holding.id) return cell;
    if (holder !== 0) this.#shared(cell, holding, at);
    if (holding.zero) return this.claim(byte, bytes, holding, at);
    throw new InterpretFailure(
      interpretCodes.uninitialised,
      at,
      `${holding.name} is read before it is written`,
      "hand it in first",
    );
  }

  #shared(cell: number, { name }: Holding, at: string): never {
    const other = this.#holdings[(this.#holders[cell] ?? 0) - 1];
    throw new InterpretFailure(
      interpretCodes.protocol,
      at,
      `${name} lies at byte ${cell * CELL_BYTES} of the workspace, where ${other?.name} is`,
      "regions behind each other, and strides as long as what lies there",
    );
  }

  /** When the launch has ended, the next one finds what this one found. */
  checkEnd(): void {
    if (this.#init !== "zeroOnce" || this.#values === null) return;
    for (const [cell, holder] of this.#holders.entries()) {
      const holding = this.#holdings[holder - 1];
      const value = this.#values[cell] ?? 0;
      if (holding?.zero !== true || value === 0) continue;
      throw new InterpretFailure(
        interpretCodes.protocol,
        holding.name,
        `${holding.name} has ${value} at byte ${cell * CELL_BYTES} of the workspace when the launch ends, and the next one takes it for 0`,
        "clear it, or workspace init zeroEach",
      );
    }
  }
}
