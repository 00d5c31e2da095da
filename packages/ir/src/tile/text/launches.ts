/** Kernels, their parameters and the workspace as declarations of stage machine. */

import {
  dtypeNames,
  type ExpertRows,
  expertRows,
  type GroupField,
  type LaunchExpr,
  type ParamSpec,
} from "@tilewright/core";
import {
  type ArrayDeclaration,
  type KernelDeclaration,
  keptValues,
  type MachineDeclarations,
  type RegionDeclaration,
  type RunsDeclaration,
  type SizeDeclaration,
} from "../types.ts";
import {
  arraySyntax,
  operandName,
  parseArray,
  parseRegion,
  parseRuns,
  parseSize,
  printArray,
  printRegion,
  printRuns,
  printSize,
  regionSyntax,
  runsSyntax,
} from "./arrays.ts";
import { type Cursor, parseCodes } from "./cursor.ts";
import { behind, entry, type Field, flag, integer, list, oneOf, record } from "./fields.ts";
import { mixedWord, parseLaunch, printLaunch } from "./launchExpressions.ts";

type TensorMap = Extract<ParamSpec, { readonly kind: "tensorMap" }>["tensorMap"];
type Pointer = Extract<ParamSpec, { readonly kind: "pointer" }>;

const noBuffers = new Map();

const roles = ["prepare", "main", "reduce"] as const;
const accesses = ["read", "write", "readwrite"] as const;
const scalars = ["f32", "f64", "u32", "s32", "u64"] as const;
const inits = ["none", "zeroOnce", "zeroEach"] as const;
const mapWords = {
  interleave: ["none", "16B", "32B"],
  swizzle: ["none", "32B", "64B", "128B", "128B_ATOM_32B"],
  l2: ["none", "64B", "128B", "256B"],
  oob: ["zero", "nan"],
} as const;
const pointerNames = ["a", "b", "c", "d", "sfa", "sfb", "workspace", "groups"] as const;

const launch: Field<LaunchExpr> = { what: "a value of the launch", print: printLaunch, parse: parseLaunch };

const extents = list(launch, "the extents");
const positive = (what: string): Field<readonly number[]> => list(integer(what, 1));

const mapWord = <K extends keyof typeof mapWords>(key: K): Field<(typeof mapWords)[K][number]> => ({
  what: `'${key}'`,
  print: String,
  parse: (c) => mixedWord<(typeof mapWords)[K][number]>(c, mapWords[key], key),
});

const mapField = record<TensorMap>(
  "the tensor map",
  "map {operand}{at} {dtype} dims{dims} strides{strides} box{box} elements{elementStrides} interleave {interleave} swizzle {swizzle} l2 {l2} oob {oob}",
  {
    operand: {
      what: "the operand",
      print: (operand) => `%${operand}`,
      parse: (c) => operandName(c, pointerNames),
    },
    at: behind("at", integer("the place in the workspace", 0)),
    dtype: oneOf(dtypeNames, "dtype"),
    dims: extents,
    strides: extents,
    box: positive("the box"),
    elementStrides: positive("the strides of elements"),
    interleave: mapWord("interleave"),
    swizzle: mapWord("swizzle"),
    l2: mapWord("l2"),
    oob: mapWord("oob"),
  },
);

/** `param %a @0 pointer align 16 read` */
export const printParam = (p: ParamSpec): string => {
  const head = `param %${p.name} @${p.offset}`;
  switch (p.kind) {
    case "pointer":
      return `${head} pointer align ${p.align} ${p.access}`;
    case "scalar":
      return `${head} ${p.dtype} = ${printLaunch(p.value)}`;
    case "tensorMap":
      return `${head} ${mapField.print(p.tensorMap, noBuffers)}`;
  }
};

/** `field %m @32 size = m` */
export const printField = (f: GroupField): string =>
  f.kind === "pointer"
    ? `field %${f.name} @${f.offset} pointer align ${f.align} ${f.access}`
    : `field %${f.name} @${f.offset} size = ${printLaunch(f.value)}`;

const gridField = record<KernelDeclaration["grid"]>("the grid", "({0}, {1}, {2})", [launch, launch, launch]);

/** `grid(numSms, 1, 1)` */
export const printGrid = (grid: KernelDeclaration["grid"]): string =>
  `grid${gridField.print(grid, noBuffers)}`;

type KernelLine = Omit<KernelDeclaration, "role" | "params" | "row" | "arrays">;

const kernelField = record<KernelLine>(
  "the kernel",
  "{name} grid{grid} threads {threads}{exact}{ctas}{maxnreg}{keeps}{pdl} workspace {workspace}",
  {
    name: entry,
    grid: gridField,
    threads: integer("the number of threads", 1),
    exact: flag<boolean>("exact", false),
    ctas: behind<number | null>("ctas", integer("the blocks of an SM", 1), null),
    maxnreg: behind<number | null>("maxnreg", integer("the registers of a thread", 1), null),
    keeps: behind<KernelLine["keeps"]>("keep", list(oneOf(keptValues, "kind of values"), "what is kept"), []),
    pdl: flag<true>("pdl"),
    workspace: launch,
  },
);

const printKernel = (k: KernelDeclaration): readonly string[] => [
  `kernel ${k.role} ${kernelField.print(k, noBuffers)}`,
  ...k.params.map(printParam),
  ...(k.row === undefined ? [] : [`row bytes ${k.row.bytes}`, ...k.row.fields.map(printField)]),
  ...k.arrays.map(printArray),
];

type Launches = NonNullable<MachineDeclarations["launches"]>;

/** Kernels as far as they have been read. */
type KernelHead = Omit<KernelDeclaration, "params" | "row" | "arrays"> & {
  readonly params: ParamSpec[];
  readonly arrays: ArrayDeclaration[];
  row?: { readonly bytes: number; readonly fields: GroupField[] };
};

export interface LaunchHead {
  readonly launches: {
    readonly kernels: KernelHead[];
    init: Launches["init"];
    readonly regions: RegionDeclaration[];
    readonly sizes: SizeDeclaration[];
    batch?: LaunchExpr;
    experts?: ExpertRows;
    runs?: RunsDeclaration[];
  };
}

/** The kernel whose lines are being read. */
const current = (c: Cursor, head: LaunchHead): KernelHead => {
  const kernel = head.launches.kernels.at(-1);
  return (
    kernel ??
    c.fail(c.peek(), parseCodes.syntax, "no kernel stands before it", "write kernel main @NAME … first")
  );
};

function parsePointer(c: Cursor): Pick<Pointer, "align" | "access"> {
  c.expect("align", "of the pointer");
  const align = c.integer("the alignment", 1);
  return { align, access: c.oneOf(accesses, "access") };
}

/** `%name`, and the operand of that name, or what a step reads; refused as `wrong` says where it is asked for and there is none. */
function pointerName<T extends string>(
  c: Cursor,
  what: string,
  names: readonly T[],
  wrong: (name: string) => string,
) {
  const token = c.peek();
  const name = c.name(`the ${what}'s name`);
  const step = /^epilogue(\d+)$/.exec(name)?.[1];
  const known = step === undefined ? names.find((one) => one === name) : (`epilogue${Number(step)}` as const);
  const hint = `one of: ${names.map((n) => `%${n}`).join(", ")}, %epilogue0`;
  return {
    name,
    operand: () => known ?? c.fail(token, parseCodes.unknownName, wrong(name), hint),
  };
}

function parseParam(c: Cursor): ParamSpec {
  const { name, operand } = pointerName(
    c,
    "parameter",
    pointerNames,
    (wrong) => `no operand is called %${wrong}`,
  );
  const offset = c.place();
  if (c.at("map")) return { kind: "tensorMap", name, offset, size: 128, tensorMap: mapField.parse(c) };
  if (c.eat("pointer")) return { kind: "pointer", name: operand(), offset, size: 8, ...parsePointer(c) };
  const dtype = c.oneOf(scalars, "kind of parameter (pointer, map, or a scalar's type)");
  c.expect("=", "before the value");
  const size = dtype === "f64" || dtype === "u64" ? 8 : 4;
  return { kind: "scalar", name, dtype, offset, size, value: parseLaunch(c) };
}

function parseField(c: Cursor): GroupField {
  const names = ["a", "b", "c", "d"] as const;
  const { name, operand } = pointerName(c, "field", names, (wrong) => `groups have no %${wrong}`);
  const offset = c.place();
  if (c.eat("size")) {
    c.expect("=", "before the value");
    return { kind: "size", name, offset, value: parseLaunch(c) };
  }
  c.expect("pointer", "or 'size' after the place");
  return { kind: "pointer", name: operand(), ...parsePointer(c), offset };
}

const twice = (what: string) => (name: string) => [`${what} %${name} is given twice`, "keep one"] as const;

interface LaunchSyntax {
  readonly syntax: string;
  print(p: { readonly machine?: MachineDeclarations }): readonly string[];
  parse(c: Cursor, head: LaunchHead): void;
}

export const launchDeclarations: Readonly<Record<string, LaunchSyntax>> = {
  size: {
    syntax: "size %m|%n|%k LEAST .. MOST",
    print: ({ machine }) => (machine?.launches?.sizes ?? []).map(printSize),
    parse: (c, { launches }) => {
      c.declare(() => parseSize(c), launches.sizes, twice("size"));
    },
  },
  batch: {
    syntax: "batch PROBLEMS",
    print: ({ machine }) =>
      machine?.launches?.batch === undefined ? [] : [`batch ${printLaunch(machine.launches.batch)}`],
    parse: (c, { launches }) => {
      launches.batch = parseLaunch(c);
    },
  },
  experts: {
    syntax: expertRows.join("|"),
    print: ({ machine }) =>
      machine?.launches?.experts === undefined ? [] : [`experts ${machine.launches.experts}`],
    parse: (c, { launches }) => {
      launches.experts = c.oneOf(expertRows, "kind of rows");
    },
  },
  runs: {
    syntax: runsSyntax,
    print: ({ machine }) => (machine?.launches?.runs ?? []).map(printRuns),
    parse: (c, { launches }) => {
      launches.runs = [...(launches.runs ?? []), c.located(() => parseRuns(c))];
    },
  },
  kernel: {
    syntax:
      "kernel prepare|main|reduce @NAME grid(X, Y, Z) threads N exact ctas N maxnreg N keep(VALUES) pdl workspace BYTES",
    print: ({ machine }) => (machine?.launches?.kernels ?? []).flatMap(printKernel),
    parse: (c, head) => {
      const role = c.oneOf(roles, "role of a kernel");
      head.launches.kernels.push(
        c.located(() => ({ role, ...kernelField.parse(c), params: [], arrays: [] })),
      );
    },
  },
  param: {
    syntax:
      "param %NAME @PLACE pointer align N ACCESS | TYPE = VALUE | map %OPERAND DTYPE dims(…) strides(…) box(…) …",
    print: () => [],
    parse: (c, head) => {
      current(c, head).params.push(c.located(() => parseParam(c)));
    },
  },
  row: {
    syntax: "row bytes N",
    print: () => [],
    parse: (c, head) => {
      const kernel = current(c, head);
      c.expect("bytes", "after 'row'");
      kernel.row = c.located(() => ({ bytes: c.integer("the bytes of a row", 1), fields: [] }));
    },
  },
  field: {
    syntax: "field %NAME @PLACE pointer align N ACCESS | size = VALUE",
    print: () => [],
    parse: (c, head) => {
      const { row } = current(c, head);
      if (row === undefined)
        return c.fail(
          c.peek(),
          parseCodes.syntax,
          "no row stands before the field",
          "write row bytes N first",
        );
      row.fields.push(c.located(() => parseField(c)));
    },
  },
  array: {
    syntax: arraySyntax,
    print: () => [],
    parse: (c, head) => {
      c.declare(() => parseArray(c), current(c, head).arrays, twice("array"));
    },
  },
  workspace: {
    syntax: "workspace init none|zeroOnce|zeroEach",
    print: ({ machine }) =>
      machine?.launches === undefined ? [] : [`workspace init ${machine.launches.init}`],
    parse: (c, head) => {
      c.expect("init", "after 'workspace'");
      c.locations.set(head.launches, c.scanner.locate(c.peek().offset));
      head.launches.init = c.oneOf(inits, "state of a workspace");
    },
  },
  region: {
    syntax: regionSyntax,
    print: ({ machine }) => (machine?.launches?.regions ?? []).map(printRegion),
    parse: (c, { launches }) => {
      c.declare(() => parseRegion(c), launches.regions, twice("region"));
    },
  },
};
