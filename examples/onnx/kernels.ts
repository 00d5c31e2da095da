/** The kernel of each step, compiled once for all steps that are alike, and its launch. */
import { defineProblem, launchEnvironment, type Target, workspaceBytes } from "@tilewright/core";
import { type Artifact, anchorOf } from "@tilewright/ir";
import { type MemoryPlace, planLaunch } from "@tilewright/runtime";
import { compiler } from "tilewright";
import type { Product, Rows, Step } from "./lower.ts";
import { must } from "./must.ts";
import type { Launch } from "./plan.ts";
import { layoutOf, type View } from "./views.ts";

/** What the kernels are made for. */
export interface Goal {
  readonly target: Target;
  /** Multiprocessors: grids of persistent kernels have as many blocks. */
  readonly numSms: number;
}

export interface Kernel {
  readonly artifact: Artifact;
  /** Number of its PTX among those of the plan. */
  readonly image: number;
  /** The step's view of each operand, by the manifest's name. */
  readonly operands: ReadonlyMap<string, View>;
  /** Bytes that it needs while it runs, and whether they are to be zero each time rather than once. */
  readonly workspace: { readonly bytes: number; readonly clear: boolean };
}

export class Kernels {
  /** PTX texts, each once. */
  readonly images: string[] = [];
  readonly #goal: Goal;
  readonly #known = new Map<string, Artifact>();

  constructor(goal: Goal) {
    this.#goal = goal;
  }

  of(step: Step): Kernel {
    return step.kind === "product" ? this.#product(step) : this.#rows(step);
  }

  #product({ a, b, d, batch, epilogue, operands }: Product): Kernel {
    const operand = (view: View) => ({ dtype: view.storage.dtype, ...layoutOf(view) });
    const [m = 1, k = 1] = a.shape;
    const request = {
      ...{ m, n: d.shape[1] ?? 1, k, a: operand(a), b: operand(b), d: operand(d) },
      ...(epilogue === "acc" ? {} : { epilogue }),
      ...(batch !== null && {
        batch: {
          kind: "strided" as const,
          count: batch.count,
          strideA: batch.a,
          strideB: batch.b,
          strideD: batch.d,
        },
      }),
    };
    const artifact = this.#compiled(JSON.stringify(request), () => {
      const problem = must(defineProblem(request));
      return must(compiler.compile({ problem, target: this.#goal.target }));
    });
    // Steps that load an operand have its name; others have no memory of their own.
    const read = artifact.problem.epilogue.flatMap((step, i): [string, View][] => {
      const named =
        "name" in step && step.name?.startsWith("v") ? operands[Number(step.name.slice(1))] : undefined;
      return named === undefined ? [] : [[`epilogue${i}`, named]];
    });
    return this.#kernel(artifact, new Map([["a", a], ["b", b], ["d", d], ...read]));
  }

  #rows({ op, epsilon, x, vectors, d }: Rows): Kernel {
    const [m = 1, n = 1] = x.shape;
    const [gamma, beta] = vectors;
    const head = [
      ...["tile.ir 5", `tile.kernel @${op}_${m}x${n} stage nest {`, `axis m = ${m}`, `axis n = ${n} whole`],
      `param %X ${x.storage.dtype}[m, n]`,
      ...(gamma === undefined ? [] : ["param %gamma f32[n]"]),
      ...(beta === undefined ? [] : ["param %beta f32[n]"]),
      ...[
        `param %D ${d.storage.dtype}[m, n]`,
        "tile %S f32[m, n]",
        "tile %r f32[m]",
        "tiles m, n {",
        "map %S = %X",
      ],
    ];
    const body = {
      softmax: [
        "reduce %r = max(%S) along n",
        "map %S = exp(%S - %r)",
        "reduce %r = sum(%S) along n",
        "map %r = 1 / %r",
        "store %D = %S * %r",
      ],
      layernorm: [
        "reduce %r = sum(%S) along n",
        `map %S = %S - %r / ${n}`,
        "reduce %r = sum(%S * %S) along n",
        `map %r = rsqrt(%r / ${n} + ${epsilon.toFixed(15)})`,
        `store %D = %S * %r${gamma === undefined ? "" : " * %gamma"}${beta === undefined ? "" : " + %beta"}`,
      ],
    }[op];
    const from = `${[...head, ...body, "}", "}"].join("\n")}\n`;
    const artifact = this.#compiled(from, () => must(compiler.compile({ from, target: this.#goal.target })));
    if (artifact.source === undefined) throw new TypeError("a program has its source");
    const { operands } = must(anchorOf(artifact.source));
    const views = new Map(Object.entries({ X: x, D: d, gamma, beta }));
    return this.#kernel(
      artifact,
      new Map(
        [...operands].flatMap(([name, as]) => {
          const view = views.get(name);
          return view === undefined ? [] : [[as, view] as const];
        }),
      ),
    );
  }

  #compiled(key: string, make: () => Artifact): Artifact {
    const made = this.#known.get(key) ?? make();
    this.#known.set(key, made);
    return made;
  }

  #kernel(artifact: Artifact, operands: ReadonlyMap<string, View>): Kernel {
    const at = this.images.indexOf(artifact.ptx);
    const { manifest, problem } = artifact;
    const bytes = must(workspaceBytes(manifest, launchEnvironment(problem, this.#goal)));
    return {
      ...{ artifact, operands, image: at === -1 ? this.images.push(artifact.ptx) - 1 : at },
      workspace: { bytes, clear: manifest.workspace.init === "zeroEach" },
    };
  }

  /** The launches of a kernel, in order. */
  launches({ artifact, image }: Kernel, places: Readonly<Record<string, MemoryPlace>>): readonly Launch[] {
    const env = launchEnvironment(artifact.problem, this.#goal);
    return artifact.manifest.kernels.map((spec) => ({ image, ...must(planLaunch(spec, env, places)) }));
  }
}
