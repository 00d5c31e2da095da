/** What a program of stage `machine` declares of its launch, against what its statements take. */
import type { GroupRow } from "@tilewright/core";
import { copyKernels, type Launches, launchesOf } from "../launches/kernels.ts";
import { GROUP_TABLE } from "../launches/parameters.ts";
import { printHead } from "../print.ts";
import { childrenOf } from "../rewrite.ts";
import { printArray, printRegion, printRuns, printSize } from "../text/arrays.ts";
import { copySyntax } from "../text/copyStatements.ts";
import { printLaunch } from "../text/launchExpressions.ts";
import { printField, printGrid, printParam } from "../text/launches.ts";
import type { KernelDeclaration, RegionDeclaration, Stmt, TileProgram } from "../types.ts";
import type { Fault, Subject, Verifier } from "./verifier.ts";

export const launches: Verifier = {
  name: "launches",
  code: "TW3139",
  property:
    "kernels, their grids, workspaces and what lies there, parameters, tensor maps, rows of groups, arrays, sizes, problems, runs of rows and what kernels beside the main one do are those that the statements take, value by value; what ptxas is told of them is free",
  from: "machine",
  waivable: "values",
  *check(subject) {
    const { program } = subject;
    const declared = program.machine?.launches;
    if (declared === undefined) return;
    const main = declared.kernels.find(({ role }) => role === "main");
    const taken = launchesOf(program, main ?? {});
    const names = taken.kernels.map((kernel) => `@${kernel.name}`).join(", then ");
    if (main === undefined)
      yield {
        at: declared.kernels[0] ?? "memory",
        message: "no kernel is the main one",
        hint: `launch ${names}`,
        needed: true,
      };
    for (const [i, kernel] of declared.kernels.entries()) {
      const its = ({ role, name }: KernelDeclaration): boolean =>
        role === kernel.role && (role === "main" || name === kernel.name);
      // What adds partial tiles has warps; said not to, it takes the same.
      const own = taken.kernels.find(its) ?? launchesOf(withWarps(program), {}).kernels.find(its);
      const foreign = { at: kernel, message: "is no kernel of this program here", hint: `launch ${names}` };
      if (own === undefined) yield { ...foreign, needed: true };
      else {
        if (own !== taken.kernels[i] || own.name !== kernel.name) yield foreign;
        yield* compared(kernel, own);
      }
    }
    yield* copies(subject);
    for (const kernel of declared.kernels) yield* unresolved(kernel, declared);
    if (declared.kernels.length < taken.kernels.length)
      yield {
        at: declared.kernels.at(-1) ?? "memory",
        message: "a kernel is missing behind it",
        hint: `launch ${names}`,
      };
    const facts = (one: Launches): readonly string[] => [
      ...one.sizes.map(printSize),
      ...(one.batch === undefined ? [] : [`batch ${printLaunch(one.batch)}`]),
      ...(one.experts === undefined ? [] : [`experts ${one.experts}`]),
      ...(one.runs ?? []).map(printRuns),
    ];
    const [given, needed] = [facts(declared), facts(taken)];
    const about = (fact: string): string | undefined => /^(?:batch|experts|\S+ \S+)/.exec(fact)?.[0];
    for (const fact of given)
      if (!needed.includes(fact))
        yield {
          at:
            declared.sizes.find((size) => printSize(size) === fact) ??
            declared.runs?.find((runs) => printRuns(runs) === fact) ??
            declared,
          message: `${fact} is not what the problem says`,
          hint: needed.join(", ") || "remove it",
          ...(needed.some((one) => about(one) === about(fact)) ? {} : absent),
        };
    for (const fact of needed)
      if (!given.includes(fact))
        yield {
          at: declared,
          message: `lacks ${fact}`,
          hint: fact,
          ...(given.some((one) => about(one) === about(fact)) ? {} : absent),
        };
    yield* regions(declared, taken);
    if (declared.init !== taken.init)
      yield {
        at: declared,
        message: `the workspace is ${declared.init} before a launch, and has to be ${taken.init}`,
        hint: `workspace init ${taken.init}`,
      };
  },
};

/** What emission reads: there is no kernel without it. */
const absent = { needed: true } as const;

/** The program whose kernels beside the main one have warps of work tiles. */
const withWarps = (program: TileProgram): TileProgram => ({
  ...program,
  body: program.body.map((stmt) => (stmt.kind === "kernel" ? { ...stmt, warps: stmt.warps ?? 1 } : stmt)),
});

function* compared(kernel: KernelDeclaration, own: KernelDeclaration): Iterable<Fault> {
  const differs = function* (at: Fault["at"], what: string, is: string, takes: string): Iterable<Fault> {
    if (is !== takes) yield { at, message: `${is}, and ${what} ${takes}`, hint: takes };
  };
  yield* differs(kernel, "the work tiles take", printGrid(kernel.grid), printGrid(own.grid));
  yield* differs(kernel, "the kernel has", `threads ${kernel.threads}`, `threads ${own.threads}`);
  yield* differs(
    kernel,
    "the statements take",
    `workspace ${printLaunch(kernel.workspace)}`,
    `workspace ${printLaunch(own.workspace)}`,
  );
  if (own.exact && !kernel.exact)
    yield {
      at: kernel,
      message: "roles have register budgets, which count from exact threads",
      hint: "exact",
    };
  // By place: the order of the lines is that of the entry's parameters.
  const names = new Set(own.params.map(({ name }) => name));
  for (const [i, param] of kernel.params.entries()) {
    const needed = own.params[i];
    if (!names.has(param.name) || needed === undefined)
      yield {
        at: param,
        message: "no statement uses it",
        hint: "remove it",
        ...(param.name === GROUP_TABLE ? absent : {}),
      };
    else yield* differs(param, "the statements take", printParam(param), printParam(needed));
    names.delete(param.name);
  }
  for (const missing of own.params)
    if (!kernel.params.some(({ name, kind }) => name === missing.name && kind === missing.kind))
      yield { at: kernel, message: `%${missing.name} is no parameter`, hint: printParam(missing), ...absent };
  yield* rows(kernel, own.row);
  for (const array of kernel.arrays) {
    const needed = own.arrays.find(({ name }) => name === array.name);
    if (needed === undefined) yield { at: array, message: "no pointer has its name", hint: "remove it" };
    else yield* differs(array, "the problem takes", printArray(array), printArray(needed));
  }
  for (const missing of own.arrays)
    if (!kernel.arrays.some(({ name }) => name === missing.name))
      yield { at: kernel, message: `lacks array %${missing.name}`, hint: printArray(missing), ...absent };
  if (kernel.pdl !== own.pdl)
    yield {
      at: kernel,
      message: "the kernel behind it begins as the launch says",
      hint: own.pdl ? "pdl" : "without pdl",
    };
}

/** What a kernel's arrays name has to be declared, too: sizes, the workspace's regions, a batch. */
function* unresolved(
  { params, row, arrays }: KernelDeclaration,
  { regions, sizes, batch }: Launches,
): Iterable<Fault> {
  const known = new Set<string>([...params, ...(row?.fields ?? []), ...sizes].map(({ name }) => name));
  for (const array of arrays) {
    const size = [...array.strides, ...(array.batch === undefined ? [] : [array.batch])]
      .flatMap((distance) => distance.sizes)
      .find((name) => !known.has(name));
    const at = { at: array, ...absent };
    if (size !== undefined)
      yield { ...at, message: `%${size} is no parameter`, hint: "a number, or a size of the launch" };
    if (array.region === true && !regions.some(({ name }) => name === array.name))
      yield { ...at, message: `there is no region %${array.name}`, hint: "remove region" };
    if (array.axes !== undefined && batch === undefined)
      yield { ...at, message: "has axes of a batch, and the launch has one problem", hint: "remove axes" };
  }
}

/** What kernels beside the main one do with matrices and results, statement by statement. */
function* copies({ program, sites }: Subject): Iterable<Fault> {
  const kernels = copyKernels(program);
  const known = new Set([...kernels, ...(program.machine?.launches?.kernels ?? [])].map(({ name }) => name));
  for (const site of sites) {
    const { stmt, parents } = site;
    const [around] = parents;
    const own = around?.kind === "kernel" && kernels.some(({ name }) => name === around.name);
    if (Object.hasOwn(copySyntax, stmt.kind) && !own)
      yield {
        at: site,
        message: "is done by kernels beside the main one that ask for it",
        hint: "remove it",
        ...absent,
      };
    if (stmt.kind === "kernel" && !known.has(stmt.name))
      yield { at: site, message: `no kernel @${stmt.name} is launched`, hint: "remove it, or declare it" };
  }
  for (const { name, body } of kernels) {
    const stated = program.body.find((stmt) => stmt.kind === "kernel" && stmt.name === name);
    const own = stated === undefined ? [] : childrenOf(stated);
    const at = (stmt: Stmt | undefined): Fault["at"] =>
      sites.find((site) => site.stmt === (stmt ?? stated)) ??
      program.machine?.launches?.kernels.find((kernel) => kernel.name === name) ??
      "memory";
    for (const [i, stmt] of own.entries()) {
      const before = own.slice(0, i);
      const loaded = (step: number) => before.some((s) => s.kind === "result.load" && s.step === step);
      if ((stmt.kind === "result.clear" || stmt.kind === "result.store") && !loaded(stmt.step))
        yield {
          at: at(stmt),
          message: `is of a result of step ${stmt.step}, and no thread has loaded one`,
          hint: `result.load step ${stmt.step} in front`,
          ...absent,
        };
      const needed = body[i];
      if (needed === undefined) yield { at: at(stmt), message: "nothing asks for it", hint: "remove it" };
      else if (printHead(stmt) !== printHead(needed))
        yield { at: at(stmt), message: `the program takes ${printHead(needed)}`, hint: printHead(needed) };
    }
    for (const missing of body.slice(own.length))
      yield { at: at(undefined), message: `@${name} lacks ${missing.kind}`, hint: printHead(missing) };
  }
}

/** Regions as the statements take them; the message says it where one lies on another or beyond the workspace. */
function* regions(declared: Launches, taken: Launches): Iterable<Fault> {
  // Places that only the launch knows are no numbers, and compare with nothing.
  const endOf = ({ at, bytes }: RegionDeclaration) => Number(at) + Number(bytes);
  for (const region of declared.regions) {
    const needed = taken.regions.find(({ name }) => name === region.name);
    const [own, hint] = [printRegion(region), needed === undefined ? "remove it" : printRegion(needed)];
    const lacking = (["stride", "threads", "count"] as const).filter(
      (name) => needed?.[name] !== undefined && region[name] === undefined,
    );
    if (lacking.length > 0) yield { at: region, message: `lacks ${lacking.join(" and ")}`, hint, ...absent };
    if ((region.each ?? 1) * (region.stride ?? 0) >= 2 ** 32)
      yield { at: region, message: "has partial tiles of 4 GiB for a work tile", hint, ...absent };
    if (typeof needed?.at === "number" && typeof region.at !== "number")
      yield { at: region, message: "has a place that its kernels do not compute", hint, ...absent };
    if (own === hint) continue;
    const other = declared.regions.find(
      (one) => one !== region && endOf(one) > Number(region.at) && endOf(region) > Number(one.at),
    );
    const beyond = declared.kernels.every(({ workspace }) => endOf(region) > Number(workspace));
    yield {
      at: region,
      message:
        needed === undefined
          ? "nothing lies in it"
          : other !== undefined
            ? `lies on %${other.name}, which ends at byte ${endOf(other)}`
            : beyond
              ? `ends at byte ${endOf(region)}, behind the workspace`
              : `${own}, and the statements take ${hint}`,
      hint,
    };
  }
  for (const missing of taken.regions)
    if (!declared.regions.some(({ name }) => name === missing.name))
      yield { at: declared, message: `lacks region %${missing.name}`, hint: printRegion(missing), ...absent };
}

function* rows(kernel: KernelDeclaration, own: GroupRow | undefined): Iterable<Fault> {
  const { row } = kernel;
  if (row === undefined && own === undefined) return;
  if (row === undefined || own === undefined || row.bytes !== own.bytes) {
    const hint = own === undefined ? "remove the row" : `row bytes ${own.bytes}`;
    yield {
      at: row ?? kernel,
      message: "has not the row of the problem's groups",
      hint,
      ...(row === undefined ? absent : {}),
    };
    return;
  }
  const fields = own.fields.map(printField);
  for (const [i, field] of row.fields.entries())
    if (printField(field) !== fields[i])
      yield { at: field, message: "is no field of a group here", hint: fields[i] ?? "remove it" };
  for (const [i, { name }] of own.fields.entries())
    if (!row.fields.some((field) => field.name === name))
      yield { at: row, message: `field %${name} is missing`, hint: fields[i] ?? name, ...absent };
}
