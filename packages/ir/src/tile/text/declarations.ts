/** The head of a program: problem, launch, nest, directives, buffers, rings. One row per declaration. */
import type { Diagnostic, Problem } from "@tilewright/core";
import { dtypeNames, parseProblem, printProblem } from "@tilewright/core";
import { argumentsOf, type Directive, directiveNames } from "../directives.ts";
import { variablesOf } from "../sizes.ts";
import {
  type Barrier,
  type Buffer,
  cachePolicies,
  type Launch,
  type MachineDeclarations,
  type OwnershipMode,
  type Ring,
  reached,
  type Scratch,
  type Space,
  type Stage,
  type TileProgram,
} from "../types.ts";
import {
  type Clause,
  integerClause,
  optional,
  optionalFlag,
  parseClauses,
  printClauses,
  wordClause,
} from "./clause.ts";
import {
  axisClause,
  edgeClause,
  l2PrefetchSizeClause,
  l2PromotionClause,
  layoutClause,
  modes,
  ownClause,
  pagedClause,
  transports,
} from "./clauses.ts";
import { type Cursor, describe, parseCodes } from "./cursor.ts";
import { integer, name, place, record } from "./fields.ts";
import { type LaunchHead, launchDeclarations } from "./launches.ts";
import { nearestHint } from "./nearest.ts";

/** What the head of a program has given so far. */
export interface Head extends LaunchHead {
  problem: Problem | null;
  launch: Launch | null;
  readonly nest: {
    m: readonly OwnershipMode[] | null;
    n: readonly OwnershipMode[] | null;
    k: readonly OwnershipMode[] | null;
  };
  readonly directives: Directive[];
  readonly buffers: Buffer[];
  readonly rings: Ring[];
  readonly barriers: Barrier[];
  readonly scratch: Scratch[];
  memory: MachineDeclarations["memory"] | null;
}

export interface DeclarationSyntax {
  readonly syntax: string;
  /** The lines of this declaration in a program, in order. */
  print(p: TileProgram): readonly string[];
  /** Called after the keyword. */
  parse(c: Cursor, head: Head): void;
}

const columnLanes: Clause<1> = {
  keyword: "lanes",
  syntax: "cols",
  default: undefined,
  print: () => "cols",
  parse: (c) => {
    c.expect("cols", "behind 'lanes'");
    return 1;
  },
};

const bufferClauses = {
  slots: integerClause("slots", 1, 1),
  layout: layoutClause,
  own: ownClause,
  align: integerClause("align", 0, 0),
  halves: optional(axisClause("halves")),
  lanes: optional(columnLanes),
  aliased: optionalFlag("aliased"),
  packed: optionalFlag("packed"),
  cache: optional(wordClause("cache", cachePolicies, undefined)),
  l2Promotion: optional(l2PromotionClause),
  l2PrefetchBytes: optional(l2PrefetchSizeClause),
  noAllocate: optionalFlag("noAllocate"),
  transposed: optionalFlag("transposed"),
  paged: optional(pagedClause),
  every: integerClause("every", 0, 0),
};

/** What caches and the workspace keep of a matrix, and how it lies in memory. */
const ofGlobal = ["cache", "l2Promotion", "l2PrefetchBytes", "noAllocate", "transposed", "paged"] as const;

const barrierClauses = { slots: integerClause("slots", 1, 1), count: integerClause("count", 1, 1) };

const ringClauses = {
  transport: wordClause("transport", transports, undefined),
  full: edgeClause("full"),
  empty: edgeClause("empty"),
};

const scratchField = record<Scratch>("the bytes", "{name} {offset} bytes {bytes}", {
  name: name("the name of the bytes"),
  offset: place,
  bytes: integer("the number of bytes", 1),
});

const memoryField = record<MachineDeclarations["memory"]>("the memory", "shared={shared} tensor={tensor}", {
  shared: integer("the bytes of shared memory", 0),
  tensor: integer("the columns of tensor memory", 0),
});

const noBuffers = new Map<string, Buffer>();

/** In the order of the line. */
const launchFlags = ["pair", "pdl", "earlyProducerStart", "nonPortableCluster"] as const;

const spaces = ["global", "shared", "register", "tensor"] as const satisfies readonly Space[];

const printBuffer = (b: Buffer): string =>
  `${b.space} %${b.name} ${b.place === undefined ? "" : `@${b.place.offset} `}${b.dtype}[${b.shape.join(", ")}]${printClauses(bufferClauses, { ...b, every: b.place?.every ?? 0 }, noBuffers)}`;

const bufferSyntax = (space: Space): DeclarationSyntax => ({
  syntax: `${space} %NAME @PLACE DTYPE[ROWS, COLS] slots N layout L own O align BYTES halves rows|cols lanes cols aliased packed cache POLICY l2Promotion BYTES l2PrefetchBytes BYTES noAllocate transposed paged rows|cols:STEP every N`,
  // The order of declarations is part of the program, across spaces: the first space's row prints them all.
  print: (p) => (space === spaces[0] ? p.buffers.map(printBuffer) : []),
  parse: (c, head) => {
    const token = c.peek();
    const name = c.name("the buffer's name");
    const offset = c.at("@") ? c.place() : null;
    const dtype = c.oneOf(dtypeNames, "dtype");
    c.expect("[", "before the shape");
    const rows = c.integer("the number of rows", 1);
    c.expect(",", "between rows and columns");
    const cols = c.integer("the number of columns", 1);
    c.expect("]", "after the shape");
    const { every, ...clauses } = parseClauses(c, bufferClauses, "the buffer");
    const placeable = space === "shared" || space === "tensor";
    if ((offset !== null && !placeable) || (every !== 0 && offset === null))
      c.bad(
        token,
        offset === null
          ? `%${name} has slots every ${every}, and no place`
          : `%${name} is a ${space} buffer, and has no place`,
        offset === null ? "write @PLACE behind the name" : "only shared and tensor tiles have one",
      );
    if (space !== "global" && ofGlobal.some((field) => clauses[field] !== undefined))
      c.bad(
        token,
        `%${name} is no global buffer: caches keep nothing of it, the workspace has no copy, and it lies in no pages`,
        `leave out ${ofGlobal.map((field) => `'${field}'`).join(", ")}`,
      );
    const buffer: Buffer = {
      name,
      space,
      dtype,
      shape: [rows, cols],
      ...clauses,
      ...(offset === null ? {} : { place: { offset, every } }),
    };
    if (c.buffers.has(name))
      c.fail(token, parseCodes.repeated, `two buffers are called %${name}`, "rename one");
    c.buffers.set(name, buffer);
    c.locations.set(buffer, c.scanner.locate(token.offset));
    head.buffers.push(buffer);
  },
});

export const declarations: Readonly<Record<string, DeclarationSyntax>> = {
  problem: {
    syntax: "problem m=M n=N k=K …",
    print: (p) => [`problem ${printProblem(p.problem)}`],
    parse: (c, head) => {
      const raw = c.scanner.raw(null);
      const problem = parseProblem(raw.text);
      if (problem.ok) {
        head.problem = problem.value;
        c.problem = problem.value;
        c.vars.push(...variablesOf(problem.value));
      } else {
        const location = c.scanner.locate(raw.offset);
        for (const d of problem.error) c.report({ ...d, location });
      }
    },
  },
  launch: {
    syntax: "launch threads=N cluster=CxR pair pdl earlyProducerStart nonPortableCluster",
    print: ({ launch }) => [
      `launch threads=${launch.threads} cluster=${launch.cluster.join("x")}${launchFlags.map((flag) => (launch[flag] ? ` ${flag}` : "")).join("")}`,
    ],
    parse: (c, head) => {
      const { offset } = c.peek();
      c.expect("threads", "after 'launch'");
      c.expect("=", "after 'threads'");
      const threads = c.integer("the number of threads", 1, 1024);
      c.expect("cluster", "after the number of threads");
      c.expect("=", "after 'cluster'");
      const columns = c.integer("the cluster's first extent", 1, 1024);
      const token = c.peek();
      // "2x1" reads as the number 2 and the word x1.
      const second = /^x(\d+)$/.exec(c.word("the cluster's second extent, as in 2x1"))?.[1];
      if (second === undefined || Number(second) < 1 || Number(second) > 1024)
        c.bad(token, "a cluster has two extents, of 1 to 1024 blocks", "cluster=2x1");
      const flags = launchFlags.filter((flag) => c.eat(flag));
      head.launch = {
        threads,
        cluster: [columns, Number(second)],
        ...Object.fromEntries(flags.map((flag) => [flag, true])),
      };
      c.locations.set(head.launch, c.scanner.locate(offset));
    },
  },
  nest: {
    syntax: "nest m|n|k (TIER EXTENT:STRIDE, …)",
    print: ({ nest }) =>
      nest === null
        ? []
        : (["m", "n", "k"] as const).map((axis) => `nest ${axis} ${modes.print(nest[axis], noBuffers)}`),
    parse: (c, head) => {
      const token = c.peek();
      const axis = c.oneOf(["m", "n", "k"], "axis");
      if (head.nest[axis] !== null)
        c.fail(token, parseCodes.repeated, `the nest of axis ${axis} is given twice`, "keep one");
      const factors = modes.parse(c);
      head.nest[axis] = factors;
      c.locations.set(factors, c.scanner.locate(token.offset));
    },
  },
  directive: {
    syntax: "directive NAME KEY=VALUE …",
    print: (p) => p.directives.map(printDirective),
    parse: (c, head) => {
      const token = c.peek();
      const directive = parseDirective(c);
      if (head.directives.some(({ name }) => name === directive.name))
        c.fail(token, parseCodes.repeated, `directive '${directive.name}' is given twice`, "keep one");
      head.directives.push(directive);
    },
  },
  ...Object.fromEntries(spaces.map((space) => [space, bufferSyntax(space)])),
  ring: {
    syntax: "ring %NAME slots N overlapped COLUMNS carried buffers(%A, %B) transport T full EDGE empty EDGE",
    print: (p) =>
      p.rings.map(
        (r) =>
          `ring %${r.name} slots ${r.slots}${r.overlapped === undefined ? "" : ` overlapped ${r.overlapped}`}${r.carried === true ? " carried" : ""} buffers(${r.buffers.map((b) => `%${b}`).join(", ")})${printClauses(ringClauses, r, noBuffers)}`,
      ),
    parse: (c, head) => {
      const token = c.peek();
      const name = c.name("the ring's name");
      c.expect("slots", "after the ring's name");
      const slots = c.integer("the number of slots", 1);
      const lap = c.eat("overlapped")
        ? { overlapped: c.integer("the columns that two places share", 1) }
        : {};
      const carried = c.eat("carried") ? { carried: true as const } : {};
      c.expect("buffers", "after the number of slots");
      const buffers = c.list("the ring's buffers", () => c.buffer().name);
      const ring: Ring = {
        name,
        slots,
        ...lap,
        ...carried,
        buffers,
        ...parseClauses(c, ringClauses, "the ring"),
      };
      if (c.rings.has(name))
        c.fail(token, parseCodes.repeated, `two rings are called %${name}`, "rename one");
      c.rings.set(name, ring);
      c.locations.set(ring, c.scanner.locate(token.offset));
      head.rings.push(ring);
    },
  },
  mbar: {
    syntax: "mbar %NAME @PLACE slots N count ARRIVALS",
    print: ({ machine }) =>
      (machine?.barriers ?? []).map(
        (b) => `mbar %${b.name} @${b.offset}${printClauses(barrierClauses, b, noBuffers)}`,
      ),
    parse: (c, head) => {
      const read = (): Barrier => {
        const name = c.name("the barrier's name");
        return { name, offset: c.place(), ...parseClauses(c, barrierClauses, "the barrier") };
      };
      head.barriers.push(c.located(read));
    },
  },
  scratch: {
    syntax: "scratch %NAME @PLACE bytes N",
    print: ({ machine }) =>
      (machine?.scratch ?? []).map((each) => `scratch ${scratchField.print(each, noBuffers)}`),
    parse: (c, head) => {
      head.scratch.push(c.located(() => scratchField.parse(c)));
    },
  },
  memory: {
    syntax: "memory shared=BYTES tensor=COLUMNS",
    print: ({ machine }) =>
      machine === undefined ? [] : [`memory ${memoryField.print(machine.memory, noBuffers)}`],
    parse: (c, head) => {
      head.memory = c.located(() => memoryField.parse(c));
    },
  },
  ...launchDeclarations,
};

/** A directive's line: the arguments that it gives, in their order. */
function printDirective({ name, args }: Directive): string {
  const given: Readonly<Record<string, unknown>> = args;
  const parts = argumentsOf(name).flatMap(([key, row]) =>
    given[key] === undefined ? [] : [`${key}=${row.print(given[key])}`],
  );
  return ["directive", name, ...parts].join(" ");
}

/** `ring slots=2 prefetch=1`, behind the keyword. Every argument that is unknown, said twice or of no legal value is an error of its own. */
function parseDirective(c: Cursor): Directive {
  const name = c.oneOf(directiveNames, "directive");
  const raw = c.scanner.raw(null);
  const rows = new Map(argumentsOf(name));
  const args: Record<string, unknown> = {};
  const context = `directive '${name}'`;
  for (const { 0: word, index } of raw.text.matchAll(/\S+/g)) {
    const [key = "", value = ""] = word.split(/=(.*)/s);
    const row = rows.get(key);
    const report = (code: Diagnostic["code"], message: string, hint: string): void =>
      c.report(c.diagnostic(raw.offset + index, `'${word}'`, code, message, hint));
    const keys = [...rows.keys()];
    if (row === undefined)
      report(
        parseCodes.unknownWord,
        `${context} has no argument '${key}'`,
        nearestHint(key, keys) ?? (keys.length === 0 ? "it takes none" : `arguments: ${keys.join(", ")}`),
      );
    else if (Object.hasOwn(args, key))
      report(parseCodes.repeated, `${context} says '${key}' twice`, "keep one");
    else {
      args[key] = row.parse(value);
      if (args[key] !== null) continue;
      const near = row.nearest(value);
      report(
        parseCodes.badValue,
        `'${value}' does not fit ${key}=${row.syntax}`,
        near === null ? `write ${key}=${row.syntax}: ${row.summary}` : `nearest legal: ${key}=${near}`,
      );
    }
  }
  return { name, args } as Directive;
}

/** The lines that every head must have. */
const required = (stage: Stage): readonly string[] => [
  "problem",
  "launch",
  ...(reached(stage, "machine") ? ["memory"] : []),
];

/** Report what the head of a program lacks; called where the statements begin. */
export function missingDeclarations(c: Cursor, stage: Stage): void {
  const token = c.peek();
  for (const what of required(stage))
    if (!c.seen.has(what))
      c.diagnostics.push(
        c.diagnostic(
          token.offset,
          what,
          parseCodes.syntax,
          `the program has no '${what}' line before ${describe(token)}`,
          `add: ${declarations[what]?.syntax ?? what}`,
        ),
      );
}
