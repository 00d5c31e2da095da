/** Problems that no tuning has seen: sizes log-uniform from 1 to 16384, layers of published models, and rows of odd pitch, a third each, all of a seed. */
import {
  createRandom,
  findTarget,
  type Problem,
  type Random,
  readProblemRequest,
  type Target,
} from "@tilewright/core";

/** What a row of the table multiplies, and the text it is compiled to. */
interface Row {
  readonly dtype: string;
  readonly arch: string;
  /** Bytes of an element of A and B. */
  readonly bytes: number;
}

const rows = {
  bf16: { dtype: "bf16", arch: "sm_90a", bytes: 2 },
  f16: { dtype: "f16", arch: "sm_90a", bytes: 2 },
  e4m3: { dtype: "e4m3", arch: "sm_90a", bytes: 1 },
  s8: { dtype: "s8", arch: "sm_90a", bytes: 1 },
  tf32: { dtype: "tf32", arch: "sm_90a", bytes: 4 },
  f32: { dtype: "f32", arch: "sm_90a", bytes: 4 },
  f16sm80: { dtype: "f16", arch: "sm_80", bytes: 2 },
} as const satisfies Readonly<Record<string, Row>>;

export type RowName = keyof typeof rows;
export const rowNames = Object.keys(rows) as readonly RowName[];

export const kinds = ["any", "layer", "odd"] as const;
export type Kind = (typeof kinds)[number];

export interface Drawn {
  readonly id: number;
  readonly row: RowName;
  readonly kind: Kind;
  readonly m: number;
  readonly n: number;
  readonly k: number;
  /** Layout of B; A and D are row-major. */
  readonly b: "row" | "col";
}

/** n and k of the layers of GPT-2, TinyLlama, Phi-2, Llama 1 to 3, Qwen 2, Mistral, and DeepSeek-V3. */
const layers: readonly (readonly [n: number, k: number])[] = [
  [768, 768],
  [2304, 768],
  [3072, 768],
  [768, 3072],
  [1600, 1600],
  [4800, 1600],
  [6400, 1600],
  [1600, 6400],
  [2048, 2048],
  [5632, 2048],
  [2048, 5632],
  [2560, 2560],
  [10240, 2560],
  [2560, 10240],
  [3072, 3072],
  [8192, 3072],
  [3072, 8192],
  [3584, 3584],
  [18944, 3584],
  [3584, 18944],
  [4096, 4096],
  [6144, 4096],
  [11008, 4096],
  [4096, 11008],
  [14336, 4096],
  [4096, 14336],
  [28672, 4096],
  [5120, 5120],
  [13824, 5120],
  [5120, 13824],
  [8192, 8192],
  [10240, 8192],
  [28672, 8192],
  [8192, 28672],
  [1536, 7168],
  [512, 7168],
  [2112, 7168],
  [24576, 1536],
  [7168, 2048],
  [4096, 7168],
  [7168, 16384],
];

const MOST = 16384;
/** Bytes of which the pitches of what is not odd are multiples: what bulk copies ask for. */
const ALIGNED = 16;

const logUniform = (random: Random): number =>
  Math.max(1, Math.min(MOST, Math.round(MOST ** random.uniform())));

function sizesOf(kind: Kind, bytes: number, random: Random): readonly [m: number, n: number, k: number] {
  const m = logUniform(random);
  const step = ALIGNED / bytes;
  const even = (size: number): number => Math.ceil(size / step) * step;
  switch (kind) {
    case "any":
      return [m, even(logUniform(random)), even(logUniform(random))];
    case "layer": {
      const [n, k] = layers[random.integer(0, layers.length - 1)] ?? [768, 768];
      return [m, n, k];
    }
    case "odd":
      for (;;) {
        const [n, k] = [logUniform(random), logUniform(random)];
        if (n % step !== 0 || k % step !== 0) return [m, n, k];
      }
  }
}

/** `count` problems of each row, the rows in turn, so that any beginning of the list has all of them. Kinds as asked for, in turn. */
export function draw(
  seed: number,
  count: number,
  names: readonly RowName[] = rowNames,
  of: readonly Kind[] = kinds,
): readonly Drawn[] {
  const random = createRandom(seed);
  const drawn: Drawn[] = [];
  for (let i = 0; i < count; i++)
    for (const row of names) {
      const kind = of[i % of.length] ?? "any";
      const { bytes } = rows[row];
      const [m, n, k] = sizesOf(kind, bytes, random);
      // 8-bit operands are multiplied along k alone by cuBLASLt, and layers lie so.
      const across = random.uniform() < 1 / 3;
      drawn.push({
        id: drawn.length,
        row,
        kind,
        m,
        n,
        k,
        b: bytes > 1 && kind !== "layer" && across ? "row" : "col",
      });
    }
  return drawn;
}

/** The problem and the target of what was drawn. Throws for what is none: a bug. */
export function requestOf({ row, m, n, k, b }: Drawn): {
  readonly problem: Problem;
  readonly target: Target;
} {
  const { dtype, arch } = rows[row];
  const problem = readProblemRequest({ m, n, k, a: { dtype }, b: { dtype, layout: b } });
  const target = findTarget(arch);
  if (!problem.ok || !target.ok) throw new Error(`${row} ${m}x${n}x${k} is no problem`);
  return { problem: problem.value, target: target.value };
}
