/** What kernels before and behind the main one do in the workspace: transposed copies, and results of steps until they are stored in their own dtype. */
import { roundTo, sizeOf } from "@tilewright/core";
import { must } from "../../must.ts";
import { RESULT_BYTES } from "../launches/workspace.ts";
import { childrenOf } from "../rewrite.ts";
import { transposedBlock } from "../transposed.ts";
import type { Stmt, TileProgram } from "../types.ts";
import type { ResultStmt } from "./control/threads.ts";
import { type ResultPlaces, resultsOf } from "./epilogue.ts";
import { InterpretFailure, interpretCodes } from "./failure.ts";
import type { Memory } from "./memory.ts";
import { CELL_BYTES, type Workspace } from "./workspace.ts";

const RESULT_CELLS = RESULT_BYTES / CELL_BYTES;

export class FurtherKernels {
  readonly #program: TileProgram;
  readonly #memories: ReadonlyMap<string, Memory>;
  readonly #workspace: Workspace;
  /** The problem of a batch. */
  readonly #problem: number;
  readonly #loaded = new Map<number, Float32Array>();
  readonly #stored = new Map<number, Float64Array>();

  constructor(
    program: TileProgram,
    memories: ReadonlyMap<string, Memory>,
    { workspace, problem }: { readonly workspace: Workspace; readonly problem: number },
  ) {
    this.#program = program;
    this.#memories = memories;
    this.#workspace = workspace;
    this.#problem = problem;
  }

  /** CTAs along x, and threads of each, of the kernel in which a statement stands. */
  #launched(stmt: Stmt): { readonly ctas: number; readonly threads: number } {
    const around = this.#program.body.find((each) => childrenOf(each).includes(stmt));
    const name = around?.kind === "kernel" ? around.name : null;
    return { ctas: this.#workspace.grid(name)[0], threads: this.#workspace.threads(name) };
  }

  /** A square of elements a CTA: what none has stays undefined. */
  transpose(stmt: Extract<Stmt, { kind: "transpose" }>, at: string): () => void {
    const { buffer: name, first, ctas, lines, run, pitch } = stmt;
    const { buffer, written, source } = must(this.#memories.get(name) ?? null, "names are resolved");
    const size = sizeOf(buffer.dtype);
    const line = Math.max(...(buffer.layout?.stride ?? []));
    const last = Math.min(ctas, this.#launched(stmt).ctas - first);
    return () => {
      const workspace = this.#workspace;
      const region = workspace.region(name === "A" ? "a" : "b", at);
      const start = region.at + this.#problem * region.stride;
      const holding = workspace.holding(`the copy of %${name} of problem ${this.#problem}`, false);
      const across = Math.ceil(lines / transposedBlock.along);
      for (let cta = 0; cta < last; cta++) {
        const from = (cta % across) * transposedBlock.along;
        const begin = Math.floor(cta / across) * transposedBlock.across;
        for (let l = from; l < Math.min(lines, from + transposedBlock.along); l++)
          for (let e = begin; e < Math.min(run, begin + transposedBlock.across); e++) {
            const cell = workspace.claim(start + (e * line + l) * size, size, holding, at);
            workspace.values[cell] = source?.data[source.base + l * pitch + e] ?? 0;
            if (written) written[cell] = 1;
          }
      }
    };
  }

  /** Where the main kernel adds up results of a step; null where it has them in a place of their own. */
  places(step: number): ResultPlaces | null {
    const name = `epilogue${step}` as const;
    const of = this.#program.problem.epilogue[step];
    if (!this.#workspace.has(name) || of?.kind !== "reduce") return null;
    const { batch } = this.#workspace.array(name) ?? {};
    const apart = batch === undefined ? 0 : this.#workspace.distance(batch);
    const [first = 0] = this.#claimed(step, resultsOf(this.#program.problem, of), apart);
    return { values: this.#workspace.values, first, every: RESULT_CELLS };
  }

  /** Cells of so many results of the problem at hand, those of problems `apart` results from each other. */
  #claimed(step: number, count: number, apart: number): readonly number[] {
    const at = `epilogue[${step}]`;
    const region = this.#workspace.region(`epilogue${step}`, at);
    const holding = this.#workspace.holding(`results of step ${step} of problem ${this.#problem}`, true);
    return Array.from({ length: count }, (_, i) =>
      this.#workspace.claim(
        region.at + (this.#problem * apart + i) * RESULT_BYTES,
        RESULT_BYTES,
        holding,
        at,
      ),
    );
  }

  /** One thread a result. */
  result(stmt: ResultStmt, at: string): () => void {
    const { step } = stmt;
    const { problem } = this.#program;
    return () => {
      if (stmt.kind === "result.load") {
        const all = typeof stmt.count === "number" ? stmt.count : problem[stmt.count];
        const { ctas, threads } = this.#launched(stmt);
        const count = Math.min(all, ctas * threads);
        const { values } = this.#workspace;
        const cells = this.#claimed(step, count, all);
        this.#loaded.set(
          step,
          Float32Array.from(cells, (cell) => values[cell] ?? 0),
        );
        return;
      }
      const loaded = this.#loaded.get(step);
      if (loaded === undefined)
        throw new InterpretFailure(
          interpretCodes.protocol,
          at,
          `${stmt.kind} of step ${step}, whose results nobody has loaded`,
          "result.load in front",
        );
      if (stmt.kind === "result.clear") {
        const { values } = this.#workspace;
        for (const cell of this.#claimed(step, loaded.length, loaded.length)) values[cell] = 0;
        return;
      }
      this.#stored.set(
        step,
        Float64Array.from(loaded, (x) => roundTo(stmt.dtype, x)),
      );
    };
  }

  /** What has been stored of a step whose results lie in the workspace: NaN where nothing has; null of other steps. */
  stored(step: number): Float64Array | null {
    const of = this.#program.problem.epilogue[step];
    if (!this.#workspace.has(`epilogue${step}`) || of?.kind !== "reduce") return null;
    const all = new Float64Array(resultsOf(this.#program.problem, of)).fill(Number.NaN);
    all.set(this.#stored.get(step) ?? []);
    return all;
  }
}
