/** Edited texts of a kernel: each is refused or compiles, soon; and what compiles computes on the emulator what the interpreter says. */
import { isApproximateEpilogue } from "@tilewright/core";
import {
  type Artifact,
  addsAsTheyCome,
  type Backend,
  createCompiler,
  eachStmt,
  printProgram,
  type TileProgram,
  unifiedDiff,
} from "@tilewright/ir";
import type { Device } from "@tilewright/runtime";
import { caseData } from "./data.ts";
import { interpreted } from "./interpreted.ts";
import { differing } from "./judge.ts";
import { Session } from "./launch.ts";
import { mutated } from "./mutate.ts";
import { stagePrograms } from "./truth.ts";

/** What became of edited texts: `ran`, of those that compiled, on the emulator and the interpreter. */
export interface EditCounts {
  refused: number;
  compiled: number;
  ran: number;
}

/** Processor time, in seconds, after which an answer comes too late. */
const PATIENCE = 2;
/** Most multiply-adds of a problem that is run, and most that the interpreter does. */
const MOST_WORK = 2 ** 18;
const MOST_STEPS = 2 ** 25;
/** Sums that begin within it are exact in f32; matrix instructions round others as the interpreter does not. */
const EXACT = 2 ** 20;

/** What is wrong with `count` edits, from a seed, of the text of one stage of an artefact: crashes, late answers, other results. */
export function checkEdits(
  backend: Backend,
  artifact: Artifact,
  emulator: Device,
  seed: number,
  count: number,
  counts: EditCounts,
): readonly string[] {
  const faults: string[] = [];
  const programs = stagePrograms(artifact);
  const program = programs[seed % programs.length];
  if (program === undefined) return faults;
  const text = printProgram(program);
  for (let i = 0; i < count; i++) {
    const edited = mutated(text, seed * 1000 + i);
    const report = (what: string): void =>
      void faults.push(
        `seed ${seed}, edit ${i}, stage ${program.stage}: ${what}\n${unifiedDiff(text, edited)}`,
      );
    try {
      const start = process.cpuUsage();
      const made = createCompiler({ backends: [backend] }).compile({ from: edited, target: artifact.target });
      const { user, system } = process.cpuUsage(start);
      const seconds = (user + system) / 1e6;
      if (seconds > PATIENCE) report(`took ${seconds.toFixed(1)} s`);
      if (!made.ok) counts.refused++;
      else {
        counts.compiled++;
        if (isSmall(made.value.program)) {
          const found = runFault(made.value, emulator, seed);
          if (found !== null) counts.ran++;
          if (found) report(found);
        }
      }
    } catch (failure) {
      report(
        `throws ${failure instanceof Error ? failure.stack?.split("\n").slice(0, 4).join("\n") : failure}`,
      );
    }
  }
  return faults;
}

const volumeOf = ({ body }: TileProgram): number =>
  Math.max(
    1,
    ...eachStmt(body).map((s) => (s.kind === "mma" ? s.acc.extent[0] * s.acc.extent[1] * s.a.extent[1] : 1)),
  );

/** Problems of one matrix, exact in integers, with sizes that are soon multiplied. */
function isSmall(program: TileProgram): boolean {
  const { m, n, k, batch, acc, epilogue, symbolic } = program.problem;
  return (
    m * n * k <= MOST_WORK &&
    batch.kind === "none" &&
    symbolic === undefined &&
    acc !== "f16" &&
    (acc === "s32" || !eachStmt(program.body).some((s) => s.kind === "fill" && Math.abs(s.value) > EXACT)) &&
    !addsAsTheyCome(program) &&
    !isApproximateEpilogue(epilogue)
  );
}

/** What the emulator does otherwise than the interpreter; "" where they agree, null where the interpreter itself finds a fault. */
function runFault(artifact: Artifact, emulator: Device, seed: number): string | null {
  const { program, problem } = artifact;
  const data = caseData(problem, "integers", seed);
  const turns = Math.max(64, Math.floor(MOST_STEPS / volumeOf(program)));
  const expected = interpreted(program, data, { order: "eager", seed, turns });
  if (!expected.ok) return null;
  const session = new Session(emulator, artifact);
  try {
    const run = session.run(data, { order: "eager", seed });
    if (run.faults.length > 0) return `emulator: ${run.faults[0]}`;
    const bits = differing(problem, run, expected.value);
    return bits > 0 ? `${bits} elements differ between emulator and interpreter` : "";
  } finally {
    session.close();
  }
}
