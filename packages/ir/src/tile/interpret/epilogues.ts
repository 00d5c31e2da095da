/** Epilogue statements of a program that runs: chains that several share, and what has been put into slots of tiles for stores. */
import { type EpilogueStep, quantizeOf } from "@tilewright/core";
import { columnRuns, type Run } from "../columns.ts";
import { upOrigin } from "../stepViews.ts";
import type { Epilogue, TileProgram } from "../types.ts";
import { type CellTable, compileExpr } from "./compileExpr.ts";
import type { StagingStmt, Thread } from "./control/threads.ts";
import { EpilogueChain, runEpilogue, type StepOutputs } from "./epilogue.ts";
import { InterpretFailure, interpretCodes } from "./failure.ts";
import type { FurtherKernels } from "./furtherKernels.ts";
import type { MachineOptions } from "./machine.ts";
import { compileView, type Memory, type Place } from "./memory.ts";

type Action = (thread: Thread) => void;

/** The columns of a run of a place. */
export const columnsOf = (place: Place, { from, to }: Run): Place => ({
  ...place,
  col: place.col + from,
  cols: to - from,
});

/** Columns of `dst` with those that share a group with them, as far as the tile has them. */
const wholeGroups = ({ from, to }: Run, dst: Place, group: number): Run => ({
  from: Math.max(0, from - ((dst.col + from) % group)),
  to: Math.min(dst.cols, Math.ceil((dst.col + to) / group) * group - dst.col),
});

export class Epilogues {
  readonly #program: TileProgram;
  readonly #memories: ReadonlyMap<string, Memory>;
  readonly #options: Pick<MachineOptions, "alpha" | "beta" | "epilogue">;
  readonly #further: FurtherKernels;
  readonly #read: (place: Place, thread: Thread, at: string) => Place;
  /** One chain for all epilogue statements with the same steps: they write parts of the same outputs. */
  readonly #chains = new Map<string, EpilogueChain>();
  /** What has been put into slots of tiles, for stores. */
  readonly #staged = new Map<string, { readonly key: string; readonly store: () => void }>();

  /** `read`: checks that a place may be read. */
  constructor(
    program: TileProgram,
    memories: ReadonlyMap<string, Memory>,
    options: Pick<MachineOptions, "alpha" | "beta" | "epilogue">,
    further: FurtherKernels,
    read: (place: Place, thread: Thread, at: string) => Place,
  ) {
    this.#program = program;
    this.#memories = memories;
    this.#options = options;
    this.#further = further;
    this.#read = read;
  }

  /** Additional results, by step. */
  get outputs(): StepOutputs {
    const [chain] = this.#chains.values();
    return chain?.outputs ?? [];
  }

  /** D's columns are as they are where a store takes them out of the slot in which they were put. */
  staged(epilogue: Epilogue, stmt: StagingStmt, table: CellTable, at: string): Action {
    const { buffer } = stmt.via;
    const slot = compileExpr(stmt.via.slot, table);
    const key = JSON.stringify(stmt.columns);
    const put = stmt.kind === "stage" ? this.run({ ...epilogue, columns: stmt.columns }, table, at) : null;
    return (thread) => {
      const place = `${buffer} ${slot(thread.cells)}`;
      const held = this.#staged.get(place);
      if (put !== null) this.#staged.set(place, { key, store: () => put(thread) });
      else if (held?.key !== key)
        throw new InterpretFailure(
          interpretCodes.protocol,
          at,
          `stores columns that nobody has put into slot ${slot(thread.cells)} of %${buffer}`,
          "stage the same columns in front of it",
        );
      else held.store();
    };
  }

  run(stmt: Epilogue, table: CellTable, at: string): Action {
    const second = stmt.gated === true ? { ...stmt.acc, origin: upOrigin(stmt.acc) } : null;
    const up = second === null ? null : compileView(second, this.#memories, table, at);
    const [dst, acc] = [stmt.dst, stmt.acc].map((v) => compileView(v, this.#memories, table, at));
    const c = stmt.c === null ? null : compileView(stmt.c, this.#memories, table, at);
    if (dst === undefined || acc === undefined) throw new RangeError("two views give two places");
    const alpha = stmt.alpha === "runtime" ? this.#options.alpha : stmt.alpha;
    const beta = stmt.beta === "runtime" ? this.#options.beta : stmt.beta;
    const chain = this.#chain(stmt.steps);
    const group = quantizeOf({ epilogue: stmt.steps })?.step.group ?? 1;
    const inputs = (stmt.inputs ?? []).map(({ step, view }) => ({
      step,
      place: compileView(view, this.#memories, table, at),
    }));
    return (thread) => {
      const { cells } = thread;
      const sum = this.#read(acc(cells), thread, at);
      const second = up === null ? null : this.#read(up(cells), thread, at);
      const given = inputs.map(({ step, place }) => ({ step, place: this.#read(place(cells), thread, at) }));
      const [to, addend] = [dst(cells), c === null ? null : c(cells)];
      for (const stored of columnRuns(stmt.columns, sum.cols)) {
        // Columns that share a scale are made together, whatever part of them is stored.
        const run = wholeGroups(stored, to, group);
        const some = (place: Place): Place => columnsOf(place, run);
        const places = {
          dst: some(to),
          acc: some(sum),
          up: second && some(second),
          c: addend && some(addend),
          // A vector along m has one column for all.
          inputs: given.map(({ step, place }) => ({
            step,
            place: place.cols === sum.cols ? some(place) : place,
          })),
        };
        runEpilogue(
          places,
          { from: stored.from - run.from, to: stored.to - run.from },
          ...([alpha, beta, chain, stmt, at] as const),
        );
      }
    };
  }

  #chain(steps: readonly EpilogueStep[]): EpilogueChain {
    const key = JSON.stringify(steps);
    const chain =
      this.#chains.get(key) ??
      new EpilogueChain(this.#program.problem, steps, this.#options.epilogue, (step) =>
        this.#further.places(step),
      );
    this.#chains.set(key, chain);
    return chain;
  }
}
