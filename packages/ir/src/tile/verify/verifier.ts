/** What a verifier is: one property, checked on any program of its stages, reported with the place in the program. */
import type { Diagnostic, GroupField, GroupRow, ParamSpec, SourceLocation, Target } from "@tilewright/core";
import { type Ranges, rangesInside } from "../ranges.ts";
import { childrenOf, eachStmt } from "../rewrite.ts";
import type {
  ArrayDeclaration,
  Barrier,
  Buffer,
  KernelDeclaration,
  MachineDeclarations,
  RegionDeclaration,
  Ring,
  RunsDeclaration,
  Scratch,
  SizeDeclaration,
  Stage,
  Stmt,
  TileProgram,
  View,
} from "../types.ts";

/** A statement and the statements around it, outermost first. */
export interface Site {
  readonly stmt: Stmt;
  readonly parents: readonly Stmt[];
  /** Ranges of the loop variables here. Names must have been resolved. */
  readonly ranges: () => Ranges;
}

/** Fault found by a verifier. `at`: the statement or declaration, or the name of another part of the program. */
export interface Fault {
  readonly at:
    | Site
    | Buffer
    | Ring
    | Barrier
    | Scratch
    | MachineDeclarations["memory"]
    | KernelDeclaration
    | ParamSpec
    | GroupRow
    | GroupField
    | ArrayDeclaration
    | RegionDeclaration
    | RunsDeclaration
    | SizeDeclaration
    | NonNullable<MachineDeclarations["launches"]>
    | string;
  readonly message: string;
  readonly hint: string;
  /** Of a verifier that is waivable but for this: emission reads what is not there, and there is no kernel without it. */
  readonly needed?: true;
}

/** A program with what all verifiers ask for, computed once. */
export interface Subject {
  readonly program: TileProgram;
  /** Null: the checks against a target's limits are skipped. */
  readonly target: Target | null;
  readonly sites: readonly Site[];
  readonly buffers: ReadonlyMap<string, Buffer>;
  readonly rings: ReadonlyMap<string, Ring>;
}

export interface Verifier {
  readonly name: string;
  /** `TW3xxx`: one code a property. */
  readonly code: Diagnostic["code"];
  /** What holds for every program that passes. */
  readonly property: string;
  /** The first stage that it applies to. */
  readonly from: Stage;
  /** What it proves lowering does not need: `unproven` compiles a program all the same; `values`: but for faults that say `needed`. */
  readonly waivable?: true | "values";
  /** Asked only of programs that were given: what passes make of one that keeps it keeps it, too. */
  readonly given?: true;
  /** The last stage that it applies to; all unless given. */
  readonly until?: Stage;
  check(subject: Subject): Iterable<Fault>;
}

/** Most turns of loops that a check of control flow takes: half a second. Programs of passes take some thousands. */
export const MOST_ITERATIONS = 1_000_000;

/** The same value at every call, computed at the first. */
function once<T>(compute: () => T): () => T {
  let value: { readonly it: T } | null = null;
  return () => {
    value ??= { it: compute() };
    return value.it;
  };
}

/** Collect sites and tables. Of buffers or rings with the same name the first counts; `names` reports the others. */
export function subjectOf(program: TileProgram, target: Target | null): Subject {
  const sites: Site[] = [];
  const walk = (stmts: readonly Stmt[], parents: readonly Stmt[], ranges: () => Ranges): void => {
    for (const stmt of stmts) {
      sites.push({ stmt, parents, ranges });
      const children = childrenOf(stmt);
      if (children.length > 0)
        walk(
          children,
          [...parents, stmt],
          once(() => rangesInside(stmt, ranges())),
        );
    }
  };
  walk(program.body, [], () => new Map());
  const firstByName = <T extends { readonly name: string }>(items: readonly T[]): Map<string, T> =>
    new Map([...items].reverse().map((item) => [item.name, item]));
  return {
    program,
    target,
    sites,
    buffers: firstByName(program.buffers),
    rings: firstByName(program.rings),
  };
}

/** The buffer of a view that `names` has resolved. Throws (a bug) otherwise. */
export function bufferAt(subject: Subject, name: string): Buffer {
  const buffer = subject.buffers.get(name);
  if (buffer === undefined) throw new RangeError(`unresolved buffer %${name}`);
  return buffer;
}

/** How diagnostics call a statement: `for %kt`, `copy %sA`. */
export function labelOf(stmt: Stmt): string {
  switch (stmt.kind) {
    case "for":
      return `for %${stmt.var}`;
    case "role":
      return `role ${stmt.name}`;
    case "fill":
    case "copy":
    case "map":
    case "reduce.row":
    case "epilogue":
      return `${stmt.kind} %${stmt.dst.buffer}`;
    case "mma":
    case "reduce":
      return `${stmt.kind} %${stmt.acc.buffer}`;
    case "acquire":
    case "commit":
    case "wait":
    case "release":
    case "request":
    case "next":
      return `${stmt.kind} %${stmt.ring}`;
    case "barrier":
      return `barrier ${stmt.id}`;
    case "pipeline":
    case "hold":
      return `${stmt.kind} %${stmt.name}`;
    case "advance":
      return `advance %${stmt.pipeline}`;
    case "mbar.wait":
    case "mbar.drain":
    case "mbar.expect":
    case "mbar.arrive":
    case "tcgen05.commit":
      return `${stmt.kind} %${stmt.barrier.ring}.${stmt.barrier.edge}`;
    case "fence":
      return `fence ${stmt.what}`;
    case "pin":
    case "rename":
      return `${stmt.kind} %${stmt.tile}`;
    default:
      return stmt.kind;
  }
}

const isSite = (at: Exclude<Fault["at"], string>): at is Site => "stmt" in at;

/** The path of a fault's place: `tiles/for %kt/copy %sA`, `%sA`, `launch`. */
function pathOf(at: Fault["at"]): string {
  if (typeof at === "string") return at;
  if (isSite(at)) return [...at.parents, at.stmt].map(labelOf).join("/");
  if ("name" in at) return `%${at.name}`;
  if ("first" in at) return `%${at.first}`;
  return "init" in at ? "workspace" : "fields" in at ? "row" : "memory";
}

/** Names of what is no statement, buffer or ring. Of memory that nothing declares its largest tile. */
const named: Readonly<Record<string, (program: TileProgram) => object | undefined | null>> = {
  launch: ({ launch }) => launch,
  nest: ({ nest }) => nest?.m,
  "nest m": ({ nest }) => nest?.m,
  "nest n": ({ nest }) => nest?.n,
  "nest k": ({ nest }) => nest?.k,
  memory: ({ machine }) => machine?.memory,
  shared: ({ machine, buffers }) => machine?.memory ?? largest(buffers, "shared"),
  tensor: ({ machine, buffers }) => machine?.memory ?? largest(buffers, "tensor"),
};

const largest = (buffers: readonly Buffer[], space: Buffer["space"]): Buffer | undefined =>
  buffers.filter((b) => b.space === space).sort((a, b) => slotElements(b) - slotElements(a))[0];

const slotElements = ({ shape, slots }: Buffer): number => shape[0] * shape[1] * slots;

/** What a name in a fault stands for: `%ring`, `role math`, `math of block 1`, `nest m`. Null where nothing of the program has it. */
export function namedIn(program: TileProgram, name: string): object | null {
  const declared = /^%(\w+)/.exec(name)?.[1];
  if (declared !== undefined)
    return (
      [...program.rings, ...program.buffers, ...(program.machine?.barriers ?? [])].find(
        (one) => one.name === declared,
      ) ?? null
    );
  if (Object.hasOwn(named, name)) return named[name]?.(program) ?? null;
  const role = /^(?:role )?(\w+)(?: of block \d+)?$/.exec(name)?.[1];
  return eachStmt(program.body).find((s) => s.kind === "role" && s.name === role) ?? null;
}

/** A fault as a diagnostic, with the line of the text where one is known. */
export function diagnosticOf(
  verifier: Verifier,
  fault: Fault,
  { program }: Pick<Subject, "program">,
  locations: ReadonlyMap<object, SourceLocation> | undefined,
): Diagnostic {
  const key =
    typeof fault.at === "string" ? namedIn(program, fault.at) : isSite(fault.at) ? fault.at.stmt : fault.at;
  const location = key === null ? undefined : locations?.get(key);
  const base = {
    code: verifier.code,
    kind: "invalid",
    at: pathOf(fault.at),
    message: fault.message,
    hint: fault.hint,
  } as const;
  return location === undefined ? base : { ...base, location };
}

/** `%sA (128 x 8)` */
export const viewText = (view: View): string => `%${view.buffer} (${view.extent[0]} x ${view.extent[1]})`;

/** Places of the statements and buffers of a program of one launch: those of the program that it was made from. */
export function placesAt(
  program: TileProgram,
  at: TileProgram,
  locations: ReadonlyMap<object, SourceLocation>,
): ReadonlyMap<object, SourceLocation> {
  const found = new Map<object, SourceLocation>(locations);
  const pair = (from: readonly object[], to: readonly object[]): void => {
    to.forEach((each, i) => {
      const place = locations.get(from[i] ?? each);
      if (place !== undefined) found.set(each, place);
    });
  };
  pair(eachStmt(program.body), eachStmt(at.body));
  pair(program.buffers, at.buffers);
  return found;
}
