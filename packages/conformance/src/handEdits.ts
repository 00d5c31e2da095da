/** Edits of a kernel's machine text as a person would make them: what the compiler says of each, what it changes in the PTX, and what the emulator finds. */
import { type DType, formatDiagnostic, type Problem, printProblem, type Target } from "@tilewright/core";
import { type Artifact, type Backend, type Compiler, createCompiler, unifiedDiff } from "@tilewright/ir";
import { type Device, openDevice } from "@tilewright/runtime";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { plainProblem } from "./bound.ts";
import { must } from "./build.ts";
import { type CaseData, caseData } from "./data.ts";
import { judge, type Stored, sameBytes } from "./judge.ts";
import { Session } from "./launch.ts";
import { targetOf } from "./random.ts";

/** A line of a text: the `nth` (from 0; -1: the last) that matches. */
interface LineAt {
  readonly line: RegExp;
  readonly nth?: number;
}

/** One change of a line. `move` puts it `by` lines further down (up where negative). */
type Change =
  | ({ readonly kind: "drop" | "repeat" } & LineAt)
  | ({ readonly kind: "move"; readonly by: number } & LineAt)
  | ({ readonly kind: "replace"; readonly from: RegExp; readonly to: string } & LineAt);

/** The text after a change. Throws where no line matches or nothing changes: the edit itself is wrong then. */
function edited(text: string, change: Change): string {
  const lines = text.split("\n");
  const at = lines.flatMap((line, i) => (change.line.test(line) ? [i] : [])).at(change.nth ?? 0);
  if (at === undefined) throw new RangeError(`no line ${change.nth ?? 0} matches ${change.line}`);
  const [line = ""] = lines.splice(at, 1);
  switch (change.kind) {
    case "drop":
      break;
    case "repeat":
      lines.splice(at, 0, line, line);
      break;
    case "move":
      lines.splice(at + change.by, 0, line);
      break;
    case "replace":
      lines.splice(at, 0, line.replace(change.from, change.to));
      break;
  }
  const after = lines.join("\n");
  if (after === text) throw new RangeError(`${change.line} is as it was`);
  return after;
}

/** An edit, and what has to come of it. */
export type HandEdit = ConvictedEdit | TakenEdit;

interface ConvictedEdit {
  readonly what: string;
  readonly change: Change;
  /** Code of the rule that convicts it, and the line that it names. */
  readonly code: `TW${number}`;
  readonly line: RegExp;
  /** Every line of PTX that changes, with register numbers and labels taken out. `manifest`: what changes is said to the launch. Null: there is no kernel without what is missing. */
  readonly ptx: RegExp | "manifest" | null;
  /** A finding of the emulator, or `D`: wrong numbers. Null: no schedule of the emulator shows it, as no arrangement of the hardware has to. */
  readonly emulator: RegExp | null;
}

/** The kernel is as right as before: the proof takes it, and the emulator finds nothing. */
interface TakenEdit {
  readonly what: string;
  readonly change: Change;
  readonly code: "taken";
  readonly ptx: RegExp;
}

/** Registers and labels are numbered in the order of their use: one instruction less shifts all that follow. */
const unnumbered = (ptx: string): string =>
  ptx
    .replace(/%([a-z]+)\d+\b/g, "%$1")
    .replace(/\b(\w+?)_\d+(?=[:;])/g, "$1")
    .replace(/^\s*\.reg .*$/gm, "");

const orders = [
  { order: "eager" },
  { order: "lazy" },
  { order: "random", seed: 0 },
  { order: "random", seed: 1 },
] as const;

/** A test for each edit of the machine text of a kernel of `backend`: [m, n, k] with operands of `dtype`, whose sums `more` may scale, by a schedule. */
export function handEdits(
  backend: Backend,
  arch: string,
  dtype: DType,
  [m, n, k]: readonly [m: number, n: number, k: number],
  schedule: string,
  edits: readonly HandEdit[],
  more?: Parameters<typeof plainProblem>[4],
): void {
  const problem = plainProblem(m, n, k, dtype, more);
  handEditsOf(backend, schedule, { problem, target: targetOf(arch), schedule }, edits);
}

/** The same for any request, `what` names its kernel, on an emulated GPU with so many SMs. */
export function handEditsOf(
  backend: Backend,
  what: string,
  request: Parameters<Compiler["compile"]>[0] & { readonly target: Target },
  edits: readonly HandEdit[],
  gpu: { readonly numSms?: number } = {},
): void {
  describe(`edits of ${what}`, () => {
    let emulator: Device;
    let artifact: Artifact;
    const dataOf = dataOfProblems();
    beforeAll(async () => {
      emulator = must(await openDevice({ kind: "emulator", arch: request.target.arch, ...gpu }));
      artifact = must(createCompiler({ backends: [backend] }).compile(request));
    });
    afterAll(() => emulator.close());
    test.each(edits)("$what: $code", (edit) => {
      expect(handEditFaults(backend, artifact, emulator, dataOf, edit)).toEqual([]);
    });
  });
}

/** Data of a problem. Few edits change what is computed: its reference is made once for all that do not. */
type DataOf = (problem: Problem) => CaseData;

function dataOfProblems(): DataOf {
  const known = new Map<string, CaseData>();
  return (problem) => {
    const key = printProblem(problem);
    const data = known.get(key) ?? caseData(problem, isChain(problem) ? "normal" : "integers", 1);
    known.set(key, data);
    return data;
  };
}

/** The reference of a problem knows one product. */
const isChain = ({ epilogue }: Problem): boolean => epilogue.some(({ kind }) => kind === "factor");

/** What is otherwise than an edit of a kernel's machine text says; empty where the proof, the PTX and the emulator are as it says. */
function handEditFaults(
  backend: Backend,
  original: Artifact,
  emulator: Device,
  dataOf: DataOf,
  edit: HandEdit,
): readonly string[] {
  const text = edited(original.textAt("machine") ?? "", edit.change);
  const lines = text.split("\n");
  const compiler = createCompiler({ backends: [backend] });
  const { target } = original;
  const refused = compiler.compile({ from: text, target });
  if (edit.code === "taken")
    return refused.ok
      ? [...ptxFaults(original, refused.value, edit), ...rightFaults(refused.value, emulator, dataOf)]
      : refused.error.map((found) => `proof: ${formatDiagnostic(found)}`);
  if (refused.ok) return ["is taken without a word"];
  const convicted = refused.error.some(
    ({ code, location }) => code === edit.code && edit.line.test(lines[(location?.line ?? 0) - 1] ?? ""),
  );
  const faults = convicted ? [] : refused.error.map((found) => `proof: ${formatDiagnostic(found)}`);
  const made = compiler.compile({ from: text, target, unproven: true });
  if (!made.ok)
    return edit.ptx === null
      ? faults
      : [...faults, ...made.error.map((d) => `unproven: ${formatDiagnostic(d)}`)];
  return [
    ...faults,
    ...ptxFaults(original, made.value, edit),
    ...emulatorFaults(original, made.value, emulator, dataOf, edit),
  ];
}

function ptxFaults(original: Artifact, made: Artifact, { ptx }: Pick<HandEdit, "ptx">): readonly string[] {
  if (ptx === null) return ["unproven: compiles"];
  if (ptx === "manifest")
    return original.ptx === made.ptx && JSON.stringify(original.manifest) !== JSON.stringify(made.manifest)
      ? []
      : ["manifest: as it was, or the PTX is another"];
  const changed = unifiedDiff(unnumbered(original.ptx), unnumbered(made.ptx))
    .split("\n")
    .filter((line) => /^[+-](?![+-])/.test(line) && line.trim().length > 1);
  if (original.ptx === made.ptx) return ["ptx: the same"];
  return changed.filter((line) => !ptx.test(line)).map((line) => `ptx: ${line}`);
}

function emulatorFaults(
  original: Artifact,
  made: Artifact,
  emulator: Device,
  dataOf: DataOf,
  { emulator: wanted }: ConvictedEdit,
): readonly string[] {
  if (wanted === null) return [];
  const chain = isChain(made.problem);
  const session = new Session(emulator, made);
  const before = chain ? new Session(emulator, original) : null;
  const found: string[] = [];
  const shows = (faults: readonly string[]): boolean => {
    found.push(...faults);
    return faults.some((fault) => wanted.test(fault));
  };
  try {
    const data = dataOf(made.problem);
    for (const options of orders) {
      const run = session.run(data, options);
      if (shows(run.faults)) return [];
      if (shows(before ? sameNumbers(run, before.run(data, options)) : judge(made.problem, data, run)))
        return [];
    }
    return [`emulator: ${found[0] ?? "finds nothing"}`];
  } finally {
    session.close();
    before?.close();
  }
}

/** What the emulator finds in a kernel that is right. */
function rightFaults(made: Artifact, emulator: Device, dataOf: DataOf): readonly string[] {
  const session = new Session(emulator, made);
  try {
    const data = dataOf(made.problem);
    return orders.flatMap((options) => {
      const run = session.run(data, options);
      return [...run.faults, ...judge(made.problem, data, run)].map((fault) => `emulator: ${fault}`);
    });
  } finally {
    session.close();
  }
}

const sameNumbers = (run: Stored, before: Stored): readonly string[] =>
  sameBytes(run, before) ? [] : ["D is another than before the edit"];
