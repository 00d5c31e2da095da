/** One problem with one schedule through every oracle that is here: interpreter, ptxas, emulator in three orders, GPU. */
import {
  addedRows,
  addsToD,
  type Checked,
  createRandom,
  formatDiagnostic,
  isApproximateEpilogue,
  isEmptyGroup,
  type Problem,
  printProblem,
  type ReferenceInputs,
  type Schedule,
  type Target,
} from "@tilewright/core";
import {
  type Artifact,
  addsAsTheyCome,
  type Backend,
  createCompiler,
  printSchedule,
  programAt,
  referenceProgram,
} from "@tilewright/ir";
import type { Device } from "@tilewright/runtime";
import { assemble, hasPtxas, SPILLED } from "./assemble.ts";
import { everything } from "./build.ts";
import { countFaults, type Footprint } from "./counts.ts";
import { type CaseData, caseData, type DataKind, type RuntimeScalars } from "./data.ts";
import { interpreted } from "./interpreted.ts";
import { differing, judge, sameBytes } from "./judge.ts";
import { type Run, type RunOptions, Session } from "./launch.ts";
import { groupProblems, launchProblems } from "./launches.ts";
import { truthFaults } from "./truth.ts";

export interface Case {
  readonly problem: Problem;
  readonly schedule: Schedule;
  readonly target: Target;
  readonly seed: number;
  /** Whether ptxas may spill: the schedule is none that the backend proposes, and the backend promises nothing of others. */
  readonly maySpill?: boolean;
  /** What the inputs are; integers and normal data unless given. */
  readonly data?: readonly DataKind[];
  /** Values of alpha and beta where the problem leaves them to the launch. */
  readonly scalars?: RuntimeScalars;
  /** How the buffers lie. */
  readonly memory?: Pick<RunOptions, "inPlace" | "withoutC">;
}

/** What a case says beside its problem and schedule. */
type Drawn = Omit<Case, "problem" | "schedule" | "target">;

export interface Oracles {
  readonly emulator: Device;
  /** A GPU that runs the target's text; its bits must be the emulator's, which computes as the GPU's tensor cores do. */
  readonly gpu?: Device;
  /** Further seeds of the random order, with the last kind of data. */
  readonly seeds?: number;
  /** Further targets for which ptxas has to take the same schedule's text, where the backend serves the problem there. */
  readonly kin?: readonly Target[];
  /** What legality counts of a block's memory, held against the program. */
  readonly footprint?: Footprint;
  /** Whether the interpreter does the kernel's arithmetic, operation by operation: then bits are compared. */
  readonly sameArithmetic?: (problem: Problem, schedule: Schedule) => boolean;
}

/** What one launch computes: the artefact's, or at the launch's sizes. */
type Launched = Pick<Artifact, "problem" | "program">;

/** Launches of a kernel whose sizes come with the launch, beside one at the problem's own. */
const OTHER_SIZES = 3;

const orders = ["eager", "lazy", "random"] as const;
type Order = (typeof orders)[number];

/**
 * Orders in which a launch runs with data of a kind: with the last one two, whose sums show in which order they were added (sums of the integers before it never do); with the
 * others the third, since what a kernel does next, and so its hazards, never depends on its elements. With TILEWRIGHT_SLOW=1 all with each.
 */
function ordersOf(kinds: readonly DataKind[], kind: DataKind, seed: number): readonly Order[] {
  const third = orders[seed % orders.length] ?? "lazy";
  if (everything) return orders;
  return kind === kinds.at(-1) ? orders.filter((order) => order !== third) : [third];
}

/** Everything that is wrong with a case, each sentence with where it was found; empty when it passes. */
export function checkCase(backend: Backend, subject: Case, oracles: Oracles): readonly string[] {
  const { problem, schedule, target } = subject;
  const made = compiled(backend, subject, target);
  const faults: string[] = [];
  if (!made.ok) faults.push(...made.error.map((found) => `compile: ${formatDiagnostic(found)}`));
  else {
    faults.push(
      ...truthFaults(backend, made.value, subject.seed, everything),
      ...countFaults(backend, made.value, schedule, oracles.footprint),
      ...assembledFaults(made.value, subject),
      ...checkRuns(made.value, subject, oracles),
    );
    for (const kin of oracles.kin ?? []) {
      if (!hasPtxas || !backend.accepts(problem, kin).ok) continue;
      const other = compiled(backend, subject, kin);
      const found = other.ok ? assembledFaults(other.value, subject) : other.error.map(formatDiagnostic);
      faults.push(...found.map((what) => `${kin.arch}: ${what}`));
    }
  }
  if (faults.length === 0) return faults;
  return [`${printProblem(problem)}\n${printSchedule(backend.schedule, schedule)}`, ...faults];
}

/** A program over named axes, and what is drawn for it. */
export interface ProgramCase {
  readonly text: string;
  readonly target: Target;
  readonly seed: number;
  /** Of its product, drawn, in which ptxas may spill, or as text; the compiler's choice unless given. */
  readonly schedule?: Schedule | string;
}

/** The same of a program over named axes, with normal data. */
export function checkProgram(
  backend: Backend,
  { text, target, seed, schedule }: ProgramCase,
  oracles: Oracles,
): readonly string[] {
  const made = createCompiler({ backends: [backend] }).compile({
    from: text,
    target,
    ...(schedule === undefined ? {} : { schedule }),
    verify: "each",
  });
  if (!made.ok) return made.error.map((found) => `compile: ${formatDiagnostic(found)}`);
  const subject = { seed, data: ["normal"], maySpill: typeof schedule === "object" } as const;
  const faults = [
    ...truthFaults(backend, made.value, seed, everything),
    ...assembledFaults(made.value, subject),
    ...checkRuns(made.value, subject, oracles),
  ];
  return faults.length === 0 ? faults : [text, made.value.schedule ?? "", ...faults];
}

const compiled = (backend: Backend, { problem, schedule }: Case, target: Target): Checked<Artifact> =>
  createCompiler({ backends: [backend] }).compile({ problem, target, schedule, verify: "each" });

/** What ptxas has against a text; nothing where it is not installed. */
const assembledFaults = ({ ptx, target }: Artifact, { maySpill }: Drawn): readonly string[] =>
  hasPtxas ? assemble(ptx, target.arch).faults.filter((what) => !(maySpill && what.startsWith(SPILLED))) : [];

function checkRuns(artifact: Artifact, subject: Drawn & Partial<Case>, oracles: Oracles): readonly string[] {
  const { seed, data: kinds = ["integers", "normal"], scalars = {}, memory = {} } = subject;
  const { source } = artifact;
  const faults: string[] = [];
  const emulated = new Session(oracles.emulator, artifact);
  const onGpu = oracles.gpu && new Session(oracles.gpu, artifact);
  try {
    if (artifact.problem.batch.kind === "grouped") {
      for (const kind of kinds)
        checkGroups(artifact, emulated, onGpu ?? null, { kind, kinds }, subject, oracles, faults);
      return faults;
    }
    for (const problem of launchProblems(createRandom(seed), artifact.problem, OTHER_SIZES)) {
      const launched = { problem, program: programAt(artifact.program, problem) };
      const before = faults.length;
      for (const kind of kinds) {
        const data = caseData(problem, kind, seed, {
          scalars,
          ...(source && { reference: (inputs: ReferenceInputs) => referenceProgram(source, inputs) }),
        });
        // A GPU computes as its own generation does, whichever the text is for.
        const arithmetic = oracles.gpu ? { arithmetic: oracles.gpu.arch } : {};
        const ways = waysOf(ordersOf(kinds, kind, seed), seed, kind === kinds.at(-1) ? oracles.seeds : 0);
        const options = { problem, ...arithmetic, ...memory };
        const first = checkEmulated(launched, emulated, data, ways, options, faults);
        checkInterpreted(launched, data, first, subject, oracles, faults);
        if (onGpu) checkGpu(launched, onGpu.run(data, { problem, ...memory }), first, data, faults);
      }
      if (faults.length > before) faults.splice(before, 0, `launched for ${printProblem(problem)}`);
    }
  } finally {
    emulated.close();
    onGpu?.close();
  }
  return faults;
}

/** One launch of a grouped problem: each group against the reference and the interpreter. */
function checkGroups(
  artifact: Artifact,
  emulated: Session,
  onGpu: Session | null,
  { kind, kinds }: { readonly kind: DataKind; readonly kinds: readonly DataKind[] },
  subject: Drawn & Partial<Case>,
  oracles: Oracles,
  faults: string[],
): void {
  const { seed, scalars = {} } = subject;
  let before = 0;
  const groups = groupProblems(createRandom(seed), artifact.problem).map((problem) => {
    const first = before;
    before += problem.m;
    return {
      problem,
      data: isEmptyGroup(problem) ? null : caseData(problem, kind, seed, { scalars, first }),
    };
  });
  const expected = addsToD(artifact.problem) ? sumsOfGroups(groups) : groups.map(({ data }) => data);
  const arithmetic = oracles.gpu ? { arithmetic: oracles.gpu.arch } : {};
  const tried = ordersOf(kinds, kind, seed);
  const runs = tried.map((order) => emulated.runGroups(groups, { order, seed, ...arithmetic }));
  const device = onGpu?.runGroups(groups);
  for (const [i, { problem, data }] of groups.entries()) {
    const [first, ...others] = runs.map((run) => run[i] ?? null);
    const whole = expected[i] ?? null;
    if (data === null || whole === null || !first) continue;
    const launched = { problem, program: programAt(artifact.program, problem) };
    const known = faults.length;
    for (const [j, run] of [first, ...others].entries()) {
      if (!run) continue;
      const found = [...run.faults, ...judge(problem, whole, run)];
      if (!addsAsTheyCome(launched.program) && differing(problem, first, run) > 0)
        found.push("differs from the first order");
      faults.push(...found.map((what) => `emulator, ${kind}, ${tried[j]}: ${what}`));
    }
    // The interpreter runs a group by itself.
    const [own] = addsToD(problem) ? sumsOfGroups([{ problem, data }]) : [data];
    checkInterpreted(launched, own ?? data, first, subject, oracles, faults);
    const onDevice = device?.[i];
    if (onDevice) checkGpu(launched, onDevice, first, whole, faults);
    if (faults.length > known) faults.splice(known, 0, `group ${i}: ${printProblem(problem)}`);
  }
}

/** Data of groups that add to one D, with what it holds behind all of them. */
function sumsOfGroups(
  groups: readonly { readonly problem: Problem; readonly data: CaseData | null }[],
): readonly (CaseData | null)[] {
  const [some] = groups;
  const sums = some
    ? addedRows(
        some.problem,
        groups.flatMap(({ data }) => (data === null ? [] : [data.reference])),
      )
    : [];
  let next = 0;
  return groups.map(({ data }) => {
    if (data === null) return null;
    const reference = sums[next++] ?? data.reference;
    return { ...data, reference };
  });
}

interface Way {
  readonly order: Order;
  readonly seed: number;
  readonly name: string;
}

const waysOf = (tried: readonly Order[], seed: number, seeds = 0): readonly Way[] => [
  ...tried.map((order) => ({ order, seed, name: order })),
  ...Array.from({ length: seeds }, (_, i): Way => {
    const more = seed + i + 1;
    return { order: "random", seed: more, name: `random, seed ${more}` };
  }),
];

/** The run of the first way; the others must have its bits, unless the kernel adds in any order. */
function checkEmulated(
  { problem, program }: Launched,
  session: Session,
  data: CaseData,
  ways: readonly Way[],
  options: RunOptions,
  faults: string[],
): Run {
  let first: Run | null = null;
  let judged: readonly string[] = [];
  for (const { name, ...way } of ways) {
    const run = session.run(data, { ...options, ...way });
    const again: boolean = first !== null && sameBytes(first, run);
    const found: readonly string[] = again ? judged : judge(problem, data, run);
    faults.push(...[...run.faults, ...found].map((what) => `emulator, ${data.kind}, ${name}: ${what}`));
    if (first === null) [first, judged] = [run, found];
    else if (!again && !addsAsTheyCome(program)) {
      const bits = differing(problem, first, run);
      if (bits > 0)
        faults.push(`emulator, ${data.kind}: ${bits} elements differ between ${ways[0]?.name} and ${name}`);
    }
  }
  if (first === null) throw new Error("there is an order");
  return first;
}

function checkInterpreted(
  { problem, program }: Launched,
  data: CaseData,
  emulated: Run,
  { schedule, seed }: Drawn & Partial<Case>,
  { sameArithmetic }: Oracles,
  faults: string[],
): void {
  const order = orders[seed % orders.length] ?? "lazy";
  const run = interpreted(program, data, { order, seed });
  const where = `interpreter, ${data.kind}, ${order}`;
  if (!run.ok) {
    faults.push(...run.error.map((found) => `${where}: ${formatDiagnostic(found)}`));
    return;
  }
  faults.push(...judge(problem, data, run.value).map((what) => `${where}: ${what}`));
  if (addsAsTheyCome(program) || schedule === undefined || !sameArithmetic?.(problem, schedule)) return;
  const bits = differing(problem, emulated, run.value);
  if (bits > 0) faults.push(`${where}: ${bits} elements differ from the emulator's`);
}

function checkGpu(
  { problem, program }: Launched,
  run: Run,
  emulated: Run,
  data: CaseData,
  faults: string[],
): void {
  const found = [...run.faults, ...judge(problem, data, run)];
  faults.push(...found.map((what) => `GPU, ${data.kind}: ${what}`));
  // The emulator rounds `ex2.approx` and its like correctly, inside the documented error; a GPU's bits are its own.
  if (isApproximateEpilogue(problem.epilogue)) return;
  const bits = addsAsTheyCome(program) ? 0 : differing(problem, emulated, run);
  if (bits > 0) faults.push(`GPU, ${data.kind}: ${bits} elements differ from the emulator's`);
}
