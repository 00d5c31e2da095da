/** What an epilogue computes of each element that it stores, and how many of the tile's columns those are. */
import type { Activation, EpilogueStep, FunctionName, Problem } from "@tilewright/core";
import { isRounding, mapOf, nodesOf } from "@tilewright/core";

/** Instructions of a thread: on the lanes that add and multiply, and on those of special functions (ex2, rcp). */
interface Work {
  readonly plain: number;
  readonly special: number;
}

/** As `codegen` writes them. max and min have half the lanes. */
const activations: Readonly<Record<Activation, Work>> = {
  relu: { plain: 2, special: 0 },
  sigmoid: { plain: 2, special: 2 },
  silu: { plain: 3, special: 2 },
  tanh: { plain: 12, special: 2 },
  gelu_tanh: { plain: 5, special: 2 },
  gelu: { plain: 16, special: 2 },
  tanh_approx: { plain: 0, special: 1 },
  sigmoid_approx: { plain: 2, special: 1 },
  silu_approx: { plain: 2, special: 1 },
  gelu_tanh_approx: { plain: 5, special: 1 },
};

/** Lanes of an SM, by instruction (CUDA C++ Programming Guide, throughput of native arithmetic instructions). */
const LANES = { plain: 128, special: 16 } as const;

const simple: Work = { plain: 1, special: 0 };
const special: Work = { plain: 2, special: 1 };
const divided: Work = { plain: 8, special: 1 };

const specials: Readonly<Partial<Record<FunctionName, Work>>> = {
  div: divided,
  sqrt: divided,
  exp: special,
  exp2: special,
  log: special,
  rsqrt: special,
};

/** Instructions of a function, for each element. */
export const workOf = (fn: FunctionName): Work =>
  specials[fn] ?? (Object.hasOwn(activations, fn) ? activations[fn as Activation] : simple);

function ofStep(steps: readonly EpilogueStep[], index: number): readonly Work[] {
  const step = steps[index];
  if (step?.kind === "activation") return [activations[step.fn]];
  if (step?.kind === "map")
    return nodesOf(mapOf(steps, index)).flatMap((node) =>
      node.kind === "apply" && !isRounding(node.fn) ? [workOf(node.fn)] : [],
    );
  return [simple];
}

interface EpilogueWork {
  /** Cycles of an SM for each element that is stored. */
  readonly cycles: number;
  /** Columns of D for each column of the accumulators: half of them where both sums of a gated product are joined. */
  readonly share: number;
}

const known = new WeakMap<readonly EpilogueStep[], EpilogueWork>();

/** The same for all schedules of a problem, so it is worked out once. */
export function epilogueWork({ epilogue }: Pick<Problem, "epilogue">): EpilogueWork {
  const found = known.get(epilogue);
  if (found !== undefined) return found;
  const all = epilogue.flatMap((_, i) => ofStep(epilogue, i));
  const sum = (kind: keyof Work): number => all.reduce((total, work) => total + work[kind], 0) / LANES[kind];
  const joined = epilogue.some(
    (step, i) =>
      step.kind === "map" &&
      nodesOf(mapOf(epilogue, i)).some((node) => node.kind === "leaf" && node.leaf === "up"),
  );
  const work = { cycles: Math.max(sum("plain"), sum("special")), share: joined ? 0.5 : 1 };
  known.set(epilogue, work);
  return work;
}
