/** What lowering carries along: the program, the emitted code, loop state, the active predicate, and memoised values of both scopes. */

import type { ExpertRows, GroupRow, LaunchExpr, SourceLocation, Target } from "@tilewright/core";
import {
  type ArrayDeclaration,
  asLinear,
  type Cond,
  type Expr,
  type KeptValues,
  type KernelDeclaration,
  type Launches,
  must,
  namedRemainders,
  type Range,
  type RegionDeclaration,
  type RegionName,
  type RunsDeclaration,
  substituteCond,
  substituteExpr,
  type TileProgram,
} from "@tilewright/ir";
import {
  type AddressOperand,
  type EntryBuilder,
  imm,
  type Operand,
  type OperandsOf,
  param,
} from "@tilewright/ptx";
import { Code, type Pred, type Reg } from "./code.ts";
import { truthOf } from "./conditions.ts";
import type { Engine } from "./engine.ts";
import type { Pipeline } from "./pipelines.ts";
import type { Reduction } from "./reduction.ts";
import type { ThreadResult } from "./results.ts";
import type { ExpertPlace, LoopState, OpenTileLoop, PartialTileVars, TileSlice, TileVar } from "./scopes.ts";
import type { SharedMap } from "./smem.ts";
import { type RoleThreads, Values } from "./values.ts";

export class Context {
  readonly program: TileProgram;
  readonly target: Target;
  readonly engine: Engine;
  readonly entry: EntryBuilder;
  readonly shared: SharedMap;
  /** The declaration of the kernel being emitted. */
  readonly kernel: KernelDeclaration;
  /** What the kernel keeps in registers through the main loop. */
  readonly keeps: ReadonlySet<KeptValues>;
  /** Ranges of the sizes that the launch supplies, as far as conditions around narrow them. */
  sizes: ReadonlyMap<string, Range>;
  /** Problems of a strided batch; null of others. */
  readonly problems: LaunchExpr | null;
  /** The extent in which experts differ, what divides the rows of each, and the most that there may be. */
  readonly expertAxis: "m" | "n" | "k" | null;
  readonly divisor: number;
  readonly mostRows: number;
  /** What tells rows of experts apart; null of others. */
  readonly experts: ExpertRows | null;
  readonly runs: readonly RunsDeclaration[];
  readonly arrays: ReadonlyMap<string, ArrayDeclaration>;
  /** The row of this block's group, of a grouped problem. */
  groups: GroupRow | null = null;
  /** What lies in the workspace. */
  readonly regions: readonly RegionDeclaration[];
  readonly root = new Code();
  /** Places of the program's statements in its text, where they are asked for. */
  locations: ReadonlyMap<object, SourceLocation> | null = null;
  /** Where invariants go: the kernel's prologue, later the epilogue's. */
  prologue: Code;
  values: Values;
  /** Where instructions go now. */
  body: Code;
  /** Dynamic loops, outermost first. At most one is open at a time: K chunks. */
  loop: LoopState | null = null;
  /** Constants of unrolled loops. */
  readonly constants = new Map<string, number>();
  /** Registers of tile coordinates; null for the only tile of an axis. */
  readonly tileVars = new Map<string, TileVar>();
  /** The part of a tile that this block works on; null where blocks have whole tiles or split them. */
  part: PartialTileVars | null = null;
  /** The thread that has bulk copies store, of those that come together; null where each does. */
  storing: Pred | null = null;
  /** Results of steps that the thread has loaded. */
  readonly results = new Map<number, ThreadResult>();
  /** The reduction of a work tile being emitted. */
  reduction: Reduction | null = null;
  /** The loop over tiles being emitted, where responses say which tile follows; `following` is set where one is read. */
  tileLoop: OpenTileLoop | null = null;
  /** Whether the epilogue stands in a loop, too: CTAs loop over tiles or parts of them, or roles wait in loops for accumulators that no register holds. */
  loopsOverTiles = false;
  /** Address of the first column of tensor memory, once it has been read. */
  tensor: Reg<"u32"> | null = null;
  /** Of a role that one thread runs, where other lanes of its warp gather rows: the thread that does all else that acts. Null: all that run it do. */
  acting: Pred | null = null;
  /** Which problem of the batch the tile at hand belongs to, where something says so for every tile; null: the block's own. */
  batch: Reg<"u32"> | null = null;
  /** Which group of a grouped problem the tile at hand belongs to, where blocks go through a list of them; null: the grid's second axis says. */
  group: Reg<"u32"> | null = null;
  /** Its rows, of experts, where blocks keep them from tile to tile. */
  expert: ExpertPlace | null = null;
  /** The part of a tile that the epilogue being lowered is for: elements of a thread's accumulator, and how far from them; null: all, where they are. */
  slice: TileSlice | null = null;
  /** Where the copies of a chunk go that leads: behind the barrier on which they arrive. Null where none does. */
  lead: Code | null = null;
  /** Start of shared memory, while the statements around the roles have it in a register. */
  smem: Reg<"u32"> | null = null;
  /** Pipelines of the role being emitted, and slots that it keeps, by name. */
  readonly pipelines = new Map<string, Pipeline>();
  /** Predicate of the enclosing `if`s; null outside. */
  active: Pred | null = null;
  readonly registers = new Map<string, readonly Reg[]>();
  /** Guards of the last loads into registers that are 0 where the guard is off. */
  readonly guards = new Map<string, string>();
  /** Registers that tiles had before they were renamed. */
  readonly renamed = new Map<string, readonly Reg[]>();
  /** Stands before the fence of the products to come: where their addresses are computed. Null where no fence is open. */
  beforeFence: Code | null = null;
  /** The last pointer into each array that was computed where it was used: `at` strides of the launch beyond `base`. */
  readonly recent = new Map<
    string,
    { readonly base: Reg<"u64">; readonly at: number; readonly pointer: Reg<"u64"> }
  >();
  /** Start of the code of the role being lowered, or of the kernel: values that hold through all its tiles. */
  rolePrologue: Code;
  readonly #params: ReadonlySet<string>;
  #roleValues = new Map<string, Reg>();
  #invariants = new Map<string, Reg>();
  #invariantNames = new Set<string>();

  /** `role`: the threads that run the code; those of the block unless given. */
  constructor(
    program: TileProgram,
    target: Target,
    engine: Engine,
    entry: EntryBuilder,
    shared: SharedMap,
    kernel: KernelDeclaration,
    { sizes, batch, experts, runs, regions }: Launches,
    role: RoleThreads = { first: 0, warps: program.launch.threads / 32 },
  ) {
    this.program = program;
    this.target = target;
    this.engine = engine;
    this.entry = entry;
    this.shared = shared;
    this.regions = regions;
    this.kernel = kernel;
    this.#params = new Set(kernel.params.map(({ name }) => name));
    this.arrays = new Map(kernel.arrays.map((array) => [array.name, array]));
    // Experts differ in one extent, which is the only one that is no number.
    const [rows] = experts === undefined ? [] : sizes;
    this.expertAxis = rows?.name ?? null;
    this.divisor = rows?.multiple ?? 1;
    this.mostRows = rows?.most ?? 0;
    this.sizes = new Map(sizes.map(({ name, least, most }) => [name, [least, most]]));
    this.problems = batch ?? null;
    this.experts = experts ?? null;
    this.runs = runs ?? [];
    this.keeps = new Set(kernel.keeps);
    this.rolePrologue = this.root.nest();
    this.prologue = this.root.nest();
    this.body = this.root.nest();
    this.values = new Values(entry, this.prologue, role);
  }

  /** A part of the workspace. */
  region(name: RegionName): RegionDeclaration {
    const found = this.regions.find((region) => region.name === name);
    return must(found, `region %${name} is declared (launches)`);
  }

  /** Emit under the active predicate, joined with another. */
  emit<const M extends string>(guard: Pred | null, mnemonic: M, ...operands: OperandsOf<M>): void {
    this.body.emit(this.both(guard, this.active), mnemonic, ...operands);
  }

  /** The same for a mnemonic that is put together at run time. */
  emitAny(guard: Pred | null, mnemonic: string, ...operands: Operand[]): void {
    this.body.emitAny(this.both(guard, this.active), mnemonic, operands);
  }

  /** Everything that `emit` emits goes into `code` rather than here, under no predicate: for values of the prologue. */
  into<T>(code: Code, make: () => T): T {
    const [body, active] = [this.body, this.active];
    this.body = code;
    this.active = null;
    this.recent.clear();
    const made = make();
    this.recent.clear();
    this.body = body;
    this.active = active;
    return made;
  }

  /** An expression with the constants of unrolled loops put in. */
  fold(e: Expr): Expr {
    return substituteExpr(e, this.constants);
  }

  /** Affine form of an expression over tile and loop variables. */
  linear(e: Expr): { readonly constant: number; readonly terms: ReadonlyMap<string, number> } {
    const folded = this.fold(e);
    const named = () => namedRemainders(folded, (...of) => this.#remainder(...of));
    const form = must(
      asLinear(folded) ?? asLinear(named()),
      "indices are sums of multiples of variables (expressions)",
    );
    // The only tile of an axis is number 0.
    if ([...form.terms.keys()].every((name) => this.tileVars.get(name)?.reg !== null)) return form;
    const terms = [...form.terms].filter(([name]) => this.tileVars.get(name)?.reg !== null);
    return { ...form, terms: new Map(terms) };
  }

  /** The remainder of a tile variable and a constant, as a variable of its own; null where there is no such variable. */
  #remainder(name: string, constant: number, divisor: number): string | null {
    const reg = this.tileVars.get(name)?.reg;
    if (!reg) return null;
    const key = `(${name} + ${constant}) % ${divisor}`;
    const sum = constant === 0 ? reg : this.values.sum(reg, imm(constant));
    this.tileVars.set(key, {
      reg: this.values.modulo(sum, divisor, Number.POSITIVE_INFINITY),
      extent: divisor,
    });
    return key;
  }

  /** The value of an expression that unrolling has made constant. */
  constant(e: Expr, at: string): number {
    const { constant, terms } = this.linear(e);
    return must(terms.size > 0 ? null : constant, `${at} is constant once loops are unrolled (expressions)`);
  }

  /** The kernel parameter of an operand, scalar or map, which has to be declared: `p_a`, `p_alpha`, `p_tma_a`. */
  paramName(name: string): string {
    const lower = name.toLowerCase();
    must(this.#params.has(lower) || null, `%${lower} is a parameter of the kernel (launches)`);
    return `p_${lower}`;
  }

  param(name: string): AddressOperand {
    return param(this.paramName(name));
  }

  /** A register computed once in the prologue, memoised. */
  invariant<T extends Reg>(key: string, make: (code: Code) => T): T {
    const known = this.#invariants.get(key);
    if (known) return known as T;
    const reg = make(this.prologue);
    this.#invariants.set(key, reg);
    this.#invariantNames.add(reg.name);
    return reg;
  }

  /**
   * Compute invariants anew from here on. Values of the prologue that the epilogue shared would hold registers
   * through the whole main loop; recomputing them costs a few instructions once.
   */
  restartInvariants(): void {
    this.prologue = this.body.nest();
    this.values = new Values(this.entry, this.prologue, this.values.role);
    this.#invariants.clear();
    this.#invariantNames.clear();
    this.recent.clear();
  }

  /**
   * Lower with invariants of their own: they stand at the start of the code that `make` emits, and are forgotten after it. For code that not all
   * threads run, or that runs several times with other tile coordinates.
   */
  scope(make: () => void): void {
    this.#scoped(this.values.role, make);
  }

  /** The same for the code of a role: thread numbers count from its first warp, and values of the role stand at its start. */
  roleScope(role: RoleThreads, make: () => void): void {
    const [prologue, values] = [this.rolePrologue, this.#roleValues];
    this.rolePrologue = this.body.nest();
    this.#roleValues = new Map();
    this.#scoped(role, make);
    this.rolePrologue = prologue;
    this.#roleValues = values;
  }

  #scoped(role: RoleThreads, make: () => void): void {
    const { prologue, values, body } = this;
    const [invariants, names] = [this.#invariants, this.#invariantNames];
    this.prologue = body.nest();
    this.body = body.nest();
    this.values = new Values(this.entry, this.prologue, role);
    this.#invariants = new Map();
    this.#invariantNames = new Set();
    this.recent.clear();
    make();
    this.recent.clear();
    this.prologue = prologue;
    this.values = values;
    this.body = body;
    this.#invariants = invariants;
    this.#invariantNames = names;
  }

  /** A register computed once for all tiles of the role (or of the kernel), memoised; it may be changed by who made it. */
  roleValue<T extends Reg>(key: string, make: (code: Code) => T): T {
    const known = this.#roleValues.get(key);
    if (known) return known as T;
    const reg = make(this.rolePrologue);
    this.#roleValues.set(key, reg);
    return reg;
  }

  /** Arithmetic that waits for its place: recorded now, emitted by `placeLate`. */
  #late: Code | null = null;

  /** Record what `make` computes, for a place that is found later: where it hides behind something slow, at the latest where its values are first used. */
  recordLate(make: () => void): void {
    const { prologue, values, body } = this;
    const late = new Code(this.root.origin);
    this.prologue = late;
    this.body = late;
    this.values = new Values(this.entry, late, values.role);
    make();
    this.prologue = prologue;
    this.values = values;
    this.body = body;
    this.#late = late;
  }

  /** What was recorded stands here, unless it stands somewhere already. */
  placeLate(): void {
    if (this.#late !== null) this.body.adopt(this.#late);
    this.#late = null;
  }

  /** Conjunction in a register of its own, computed here: for predicates that are used once. */
  conjunction(a: Pred, b: Pred): Pred {
    const p = this.entry.reg("pred", "p");
    this.body.emit(null, "and.pred", p, a, b);
    return p;
  }

  /** A value of this iteration of the open loop; of the prologue when no loop is open. Emitted unpredicated at first use. */
  perIteration<T extends Reg>(key: string, make: (code: Code) => T): T {
    if (!this.loop) return this.invariant(key, make);
    const known = this.loop.iteration.get(key);
    if (known) return known as T;
    const reg = make(this.body);
    this.loop.iteration.set(key, reg);
    return reg;
  }

  /** Truth of a uniform condition: known, or a predicate register. */
  condition(c: Cond): boolean | Pred {
    return truthOf(this, substituteCond(c, this.constants));
  }

  /** Register of a tile or loop variable. */
  variable(name: string): Reg<"u32"> {
    const tile = this.tileVars.get(name);
    if (tile?.reg) return tile.reg;
    return must(this.loop?.var === name ? this.loop.counter : null, `%${name} is counted here (expressions)`);
  }

  /** Conjunction of two predicates; null is true. */
  both(a: Pred | null, b: Pred | null): Pred | null {
    if (a === null || b === null || a === b) return a ?? b;
    const key = `${a.name}&${b.name}`;
    const make = (code: Code): Pred => {
      const p = this.entry.reg("pred", "p");
      code.emit(null, "and.pred", p, a, b);
      return p;
    };
    const fixed = this.#invariantNames.has(a.name) && this.#invariantNames.has(b.name);
    return fixed ? this.invariant(key, make) : this.perIteration(key, make);
  }

  /** A value that the open loop does not change: kept through it or computed in each chunk, as the engine's budget says. */
  loopInvariant<T extends Reg>(key: string, make: (code: Code) => T): T {
    return this.engine.budget.invariants === "kept"
      ? this.invariant(key, make)
      : this.perIteration(key, make);
  }

  /** Whether a predicate holds its value for the whole kernel. */
  isInvariant(p: Pred): boolean {
    return this.#invariantNames.has(p.name);
  }
}
