/** A module ready to launch: kernels decoded, variables laid out. */
import { type Checked, type Diagnostic, err, ok, roundUp, type SourceLocation } from "@tilewright/core";
import { type ParamDecl, type PtxFunction, parseModule, type VariableDecl } from "@tilewright/ptx";
import type { KernelInfo, LoadedModule } from "../api.ts";
import { type Block, basicBlocks } from "../compile/blocks.ts";
import { chooseClasses } from "../compile/classes.ts";
import { assignSlots, markUnwritten } from "../compile/liveness.ts";
import { contract, findConstants } from "./contract.ts";
import { type DecodeContext, decodeInstruction } from "./decode.ts";
import { flatten, type Report, type SourceFiles } from "./flatten.ts";
import {
  declaredSize,
  layOut,
  parameterLayout,
  reservedBytes,
  reservedOffsets,
  reservedShared,
  reservedSharedName,
  variableOf,
} from "./layout.ts";
import { Refusal } from "./refusal.ts";
import { Scope } from "./scope.ts";
import type { Instruction, Kernel, Variable } from "./types.ts";

/** A global or const variable of the module, to be placed in device memory. */
interface ModuleVariable {
  readonly decl: VariableDecl;
  readonly variable: Variable;
}

/** Behind the opaque `LoadedModule`. */
export interface Program extends LoadedModule {
  readonly programs: ReadonlyMap<string, KernelProgram>;
  readonly variables: readonly ModuleVariable[];
  readonly scope: Scope;
}

export interface KernelProgram {
  readonly kernel: Kernel;
  readonly blocks: readonly Block[];
  /** 32-bit slots of a lane's register frame. */
  readonly slots: number;
}

/**
 * Parse and decode. Errors: the parser's TW4xxx; TW5010 instructions, TW5011 modifiers and forms, TW5012 operands, TW5013
 * calls, TW5014 special registers and TW5015 initialisers that are not emulated, each with its line. What one kernel of
 * several lacks is in its `lacks`, and refuses the module only when no kernel of it could be launched.
 * @param fmad whether sums take in products, as ptxas's flag of that name has it
 */
export function loadProgram(text: string, fmad = true): Checked<Program> {
  const parsed = parseModule(text, { keep: "unknown" });
  if (!parsed.ok) return parsed;
  const module = parsed.value;

  const scope = new Scope(null);
  const variables: ModuleVariable[] = [];
  const shared = [reservedShared()];
  for (const variable of shared) scope.declare(variable.name, { kind: "variable", variable });
  for (const item of module.items) {
    if (item.kind === "function") {
      const known = scope.find(item.name);
      if (known?.kind !== "function" || item.body !== null)
        scope.declare(item.name, {
          kind: "function",
          function: item,
          address: known?.kind === "function" ? known.address : functionAddress(scope.functions().length),
        });
    } else if (item.kind === "variable") {
      const space = item.space === "shared" ? "shared" : item.space === "const" ? "const" : "global";
      const variable = variableOf(item, space);
      scope.declare(item.name, { kind: "variable", variable });
      if (space === "shared") shared.push(variable);
      else variables.push({ decl: item, variable });
    }
  }
  for (const item of module.items) {
    const aliased = item.kind === "alias" ? scope.find(item.target) : null;
    if (item.kind === "alias" && aliased !== null) scope.declare(item.name, aliased);
  }
  const files = new Map(
    module.items.flatMap((item) => (item.kind === "file" ? [[item.index, item.name]] : [])),
  );
  const programs = new Map<string, KernelProgram>();
  const kernels: KernelInfo[] = [];
  for (const item of module.items) {
    if (item.kind !== "function" || !item.entry || item.body === null) continue;
    const loaded = loadKernel(item, module.target, scope, shared, files, fmad);
    if (loaded.ok) programs.set(item.name, loaded.value);
    kernels.push(infoOf(item, loaded));
  }
  if (kernels.length > 0 && programs.size === 0) return err(kernels.flatMap(({ lacks }) => lacks));
  return ok({ target: module.target, kernels, programs, variables, scope });
}

/** Addresses of code: in no window of memory, 128 bytes apart. */
const functionAddress = (index: number): bigint => (0x7ccn << 36n) + 128n * BigInt(index + 1);

function diagnose(refusal: Refusal, location: SourceLocation | null, at: string): Diagnostic {
  return {
    code: refusal.code,
    kind: "unsupported",
    at,
    message: refusal.message,
    ...(refusal.hint === null ? {} : { hint: refusal.hint }),
    ...(location === null ? {} : { location }),
  };
}

function infoOf(fn: PtxFunction, loaded: Checked<KernelProgram>): KernelInfo {
  const { variables } = parameterLayout(fn.params);
  return {
    entry: fn.name,
    params: variables.map(({ name, size, align, offset }, k) => ({
      ...{ name, size, align, offset },
      type: parameterType(fn.params[k]),
      pointer: fn.params[k]?.pointer != null,
    })),
    staticSmem: loaded.ok ? loaded.value.kernel.staticShared - loaded.value.kernel.reservedShared : 0,
    maxThreads: threadsOf(fn, "maxntid"),
    requiredThreads: valuesOf(fn, "reqntid"),
    lacks: loaded.ok ? [] : loaded.error,
  };
}

const parameterType = (param: ParamDecl | undefined): string =>
  param === undefined ? "b8" : param.dims.length === 0 ? param.type : `${param.type}[${declaredSize(param)}]`;

/** The kernel; errors: everything in it and in what it calls that is not emulated. */
function loadKernel(
  fn: PtxFunction,
  target: string,
  module: Scope,
  moduleShared: readonly Variable[],
  files: SourceFiles,
  fmad: boolean,
): Checked<KernelProgram> {
  const diagnostics: Diagnostic[] = [...(fn.faults ?? [])];
  const report: Report = (refusal, location, at) => diagnostics.push(diagnose(refusal, location, at));
  const parameters = parameterLayout(fn.params);
  const scope = new Scope(module);
  for (const variable of parameters.variables) scope.declare(variable.name, { kind: "variable", variable });
  const body = flatten(fn, module, scope, files, report);
  const context: DecodeContext = {
    registers: body.registers,
    carry: null,
    used: new Set(),
    reserved: reservedOffsets(target),
  };
  const decoded: Instruction[] = [];
  diagnostics.push(...body.faults);
  body.instructions.forEach(({ syntax, scope: at, source }, index) => {
    try {
      const instruction = decodeInstruction(syntax, at, index, context, source);
      resolveLabels(instruction, (name) => {
        const entity = at.find(name);
        if (entity?.kind !== "label") throw new Refusal("TW5012", `there is no label ${name} here`);
        return entity.label.index;
      });
      decoded.push(instruction);
    } catch (error) {
      if (!(error instanceof Refusal)) throw error;
      report(error, syntax.location, syntax.mnemonic);
    }
  });
  if (diagnostics.length > 0) return err(diagnostics);
  // Falling off the end returns; labels at the end point here.
  decoded.push(implicitReturn(decoded.length));
  findConstants(decoded);
  const instructions = fmad ? contract(decoded, context.registers) : decoded;

  // Shared memory: what the kernel names, in order; dynamic arrays all start where the static ones end.
  const named = [...moduleShared.filter((v) => context.used.has(v)), ...body.shared];
  const staticEnd = layOut(
    named.filter((v) => !v.dynamic),
    0,
  );
  const dynamic = named.filter((v) => v.dynamic);
  const dynamicOffset = roundUp(staticEnd, Math.max(16, ...dynamic.map((v) => v.align)));
  for (const variable of dynamic) variable.offset = dynamicOffset;
  const localBytes = roundUp(layOut(body.local, 0), 16);

  const kernel: Kernel = {
    name: fn.name,
    parameters: parameters.variables,
    parameterTypes: fn.params.map(parameterType),
    parameterBytes: parameters.bytes,
    registers: context.registers,
    instructions,
    staticShared: staticEnd,
    reservedShared: named.some(({ name }) => name === reservedSharedName) ? reservedBytes : 0,
    givenShared: named.filter((v) => v.given !== undefined),
    dynamicSharedOffset: dynamicOffset,
    localBytes,
    maxThreads: threadsOf(fn, "maxntid"),
    requiredThreads: valuesOf(fn, "reqntid"),
    ...clusterDirectives(fn),
    maxRegisters: directiveOf(fn, "maxnreg"),
  };
  chooseClasses(kernel);
  markUnwritten(kernel, basicBlocks(kernel));
  // Once more: instructions on marked registers have no vector form.
  const blocks = basicBlocks(kernel);
  return ok({ kernel, blocks, slots: assignSlots(kernel) });
}

/** Most threads that `.maxntid` allows, or exactly as many as `.reqntid` says. */
function threadsOf(fn: PtxFunction, name: "maxntid"): number | null {
  const directive =
    fn.directives.find((d) => d.name === "reqntid") ?? fn.directives.find((d) => d.name === name);
  return directive === undefined ? null : directive.values.reduce((n, x) => n * x, 1);
}

/** The numbers that a directive gives; null without it. */
const valuesOf = (fn: PtxFunction, name: string): readonly number[] | null =>
  fn.directives.find((d) => d.name === name)?.values ?? null;

/** The number that a directive with one value gives; null without it. */
const directiveOf = (fn: PtxFunction, name: string): number | null => valuesOf(fn, name)?.[0] ?? null;

function clusterDirectives(
  fn: PtxFunction,
): Pick<Kernel, "requiredCluster" | "explicitCluster" | "maxClusterRank"> {
  const required = valuesOf(fn, "reqnctapercluster");
  return {
    requiredCluster: required === null ? null : [required[0] ?? 1, required[1] ?? 1, required[2] ?? 1],
    explicitCluster: fn.directives.some((d) => d.name === "explicitcluster"),
    maxClusterRank: directiveOf(fn, "maxclusterrank"),
  };
}

function resolveLabels(instruction: Instruction, indexOf: (label: string) => number): void {
  const { operation } = instruction;
  if (operation.kind === "branch") operation.target = indexOf(operation.label);
  if (operation.kind === "indexed-branch") operation.targets = operation.labels.map(indexOf);
}

function implicitReturn(index: number): Instruction {
  return {
    index,
    mnemonic: "ret",
    text: "end of the body",
    location: null,
    source: null,
    guard: null,
    operation: { kind: "exit", trap: false },
    defs: [],
    uses: [],
    traffic: null,
    votes: [],
    strongRead: false,
    accesses: false,
    links: [],
  };
}
