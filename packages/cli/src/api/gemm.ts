/** A product in one call: a kernel for it, its launch, its result. */
import {
  type ArchName,
  type Checked,
  type Diagnostic,
  type DType,
  didYouMean,
  err,
  isLaunchScalar,
  ok,
  type Problem,
  type ProblemRequest,
  parseEpilogue,
  readProblemRequest,
  type Storage,
  sizeOf,
  storageFromBytes,
} from "@tilewright/core";
import type { Artifact } from "@tilewright/ir";
import { deviceOperands, type GemmInputs, openDevice, runGemm } from "@tilewright/runtime";
import { codes, problemWith } from "../codes.ts";
import { compiler } from "../compiler.ts";
import { usualArch } from "../request/usual.ts";
import { stepDType } from "../run/inputs.ts";
import { bytesOfNumbers, type Numbers, notANumber, type Wanted } from "./data.ts";

type Layout = "row" | "col";

/** `D = epilogue(alpha * A.B + beta * C + bias)`; A is m x k, B is k x n, C and D are m x n, all packed. */
export interface GemmCall
  extends Pick<ProblemRequest, "m" | "n" | "k" | "dtype" | "acc" | "precision" | "blockScales" | "epilogue"> {
  readonly a: Numbers;
  readonly b: Numbers;
  /** Needs `beta`. */
  readonly c?: Numbers | undefined;
  /** n numbers, added to every row before the epilogue; f32 unless the array is of D's type. */
  readonly bias?: Numbers | undefined;
  /** Scale factors of block-scaled A and B. */
  readonly sfa?: Numbers | undefined;
  readonly sfb?: Numbers | undefined;
  /** What each step of `epilogue` reads, by its position there: numbers, a number for a scalar of the launch, null for nothing. */
  readonly steps?: readonly (Numbers | number | null)[] | undefined;
  /** Element type of B and of D where they are not the usual ones. */
  readonly bDtype?: DType | undefined;
  readonly dDtype?: DType | undefined;
  /** `row` unless said: the last index is contiguous. */
  readonly layouts?:
    | { readonly a?: Layout; readonly b?: Layout; readonly c?: Layout; readonly d?: Layout }
    | undefined;
  readonly alpha?: number | undefined;
  readonly beta?: number | undefined;
  /** The architecture to compile for; where the problem is at home unless said. */
  readonly arch?: ArchName | undefined;
  readonly backend?: string | undefined;
  /** `tile=64x64x8 stages=2`; the compiler's choice unless said. */
  readonly schedule?: string | undefined;
  readonly deterministic?: boolean | undefined;
  /** `auto`, unless said: a GPU that fits, else the emulator. */
  readonly device?: "auto" | "cuda" | "emulator" | undefined;
}

export interface GemmOutcome {
  /** D as memory holds it, in its layout; `unpack(dtype, d)` makes numbers of codes. */
  readonly d: Storage;
  readonly dtype: DType;
  /** What `output` and `reduce` steps of the epilogue stored: bytes, by position in `epilogue`. */
  readonly steps: ReadonlyMap<number, Uint8Array>;
  readonly device: { readonly kind: "cuda" | "emulator"; readonly name: string };
  readonly timeMs: number;
  /** The kernel: its PTX, its manifest, its tile program at every stage. */
  readonly artifact: Artifact;
}

/** Every field of a call, and what kind of thing it is. */
const fields = {
  ...{ m: "size", n: "size", k: "size" },
  ...{
    a: "numbers",
    b: "numbers",
    c: "numbers",
    bias: "numbers",
    sfa: "numbers",
    sfb: "numbers",
    steps: "numbers",
  },
  ...{
    dtype: "problem",
    acc: "problem",
    precision: "problem",
    blockScales: "problem",
    epilogue: "problem",
    alpha: "problem",
    beta: "problem",
  },
  ...{ bDtype: "problem", dDtype: "problem", layouts: "problem" },
  ...{ arch: "text", backend: "text", schedule: "text", deterministic: "switch", device: "device" },
} as const satisfies Record<keyof GemmCall, string>;

const devices = ["auto", "cuda", "emulator"] as const;

const wrong = (at: string, message: string, hint: string): Diagnostic =>
  problemWith(codes.badArgument, at, message, { hint });

/** What stands against a call before its problem is looked at. */
function objections(call: object): readonly Diagnostic[] {
  const names = Object.keys(fields);
  return Object.entries(call).flatMap(([name, value]): readonly Diagnostic[] => {
    const kind = (fields as Readonly<Record<string, string>>)[name];
    if (kind === undefined)
      return [
        wrong(
          name,
          `gemm has no argument '${name}'`,
          didYouMean(name, names, `arguments: ${names.join(", ")}`),
        ),
      ];
    if (value === undefined) return [];
    if (kind === "text" && typeof value !== "string")
      return [wrong(name, `${name} is no text`, `${name}: "…"`)];
    if (kind === "switch" && typeof value !== "boolean")
      return [wrong(name, `${name} is neither true nor false`, `${name}: true`)];
    if (kind === "device" && !devices.some((each) => each === value))
      return [
        wrong(
          name,
          `there is no device '${String(value)}'`,
          didYouMean(String(value), devices, devices.join(", ")),
        ),
      ];
    return [];
  });
}

/** The problem that a call states. The bias is the first step of its epilogue. */
function problemOf(call: GemmCall): Checked<Problem> {
  const {
    m,
    n,
    k,
    dtype,
    acc,
    precision,
    blockScales,
    alpha,
    beta,
    bias,
    epilogue = [],
    layouts,
    bDtype,
    dDtype,
  } = call;
  if (layouts !== undefined && (typeof layouts !== "object" || layouts === null))
    return err([wrong("layouts", "layouts is no object", 'layouts: { b: "col" }')]);
  const steps = typeof epilogue === "string" ? parseEpilogue(epilogue) : ok(epilogue);
  const read = (first: readonly unknown[]) =>
    readProblemRequest({
      ...{ m, n, k, dtype, acc, precision, blockScales, alpha, beta },
      a: { layout: layouts?.a },
      b: { layout: layouts?.b, dtype: bDtype },
      ...(call.c === undefined ? {} : { c: { layout: layouts?.c } }),
      d: { layout: layouts?.d, dtype: dDtype },
      epilogue: steps.ok ? [...first, ...steps.value] : first,
    });
  const problem = read([]);
  if (!steps.ok || !problem.ok)
    return err([...(steps.ok ? [] : steps.error), ...(problem.ok ? [] : problem.error)]);
  if (bias === undefined) return problem;
  const { dtype: out } = problem.value.d;
  const wide = Array.isArray(bias) || bias instanceof Float32Array;
  return read([{ kind: "bias", along: "n", dtype: wide ? "f32" : out }]);
}

/** The element type of what an operand holds; bytes where it is no matrix of numbers (scale factors). */
function dtypeOf(problem: Problem, name: string): DType {
  const index = /^epilogue(\d+)$/.exec(name)?.[1];
  if (index !== undefined) {
    const step = problem.epilogue[Number(index)];
    return (step === undefined ? null : stepDType(step)) ?? "f32";
  }
  if (name === "sfa" || name === "sfb") return problem.blockScales === undefined ? "u8" : "f32";
  return name === "a" || name === "b" ? problem[name].dtype : problem.d.dtype;
}

/** The bytes of every operand. All errors at once, each under the name that the caller knows. */
function inputsOf(call: GemmCall, problem: Problem): Checked<GemmInputs> {
  const found: Diagnostic[] = [];
  /** Steps of the problem before those of the call's epilogue. */
  const before = call.bias === undefined ? 0 : 1;
  const take = (name: string, value: unknown, wanted: Wanted): Uint8Array | null => {
    const bytes = bytesOfNumbers(name, value, wanted);
    if (bytes.ok) return bytes.value;
    found.push(...bytes.error);
    return null;
  };
  const read = new Map<string, Uint8Array | null>();
  for (const { name, bytes, shape, direction } of deviceOperands(problem)) {
    if (direction !== "in") continue;
    // Everything is packed, so its leading dimension says nothing.
    const wanted = {
      dtype: dtypeOf(problem, name),
      bytes,
      shape: shape.replace(/ with leading dimension \d+/, ""),
    };
    const index = Number(/^epilogue(\d+)$/.exec(name)?.[1] ?? Number.NaN);
    if (Number.isNaN(index)) read.set(name, take(name, Reflect.get(call, name), wanted));
    else if (index < before) read.set(name, take("bias", call.bias, wanted));
    else read.set(name, take(`steps[${index - before}]`, call.steps?.[index - before], wanted));
  }
  for (const name of ["c", "sfa", "sfb"] as const)
    if (call[name] !== undefined && !read.has(name))
      found.push(
        wrong(
          name,
          `the problem has no ${name}`,
          name === "c" ? "give beta, the factor of C" : "block-scaled dtypes have scale factors",
        ),
      );
  const steps = problem.epilogue.map((step, index): Uint8Array | number | null => {
    if (!isLaunchScalar(step)) return read.get(`epilogue${index}`) ?? null;
    const value = call.steps?.[index - before];
    found.push(...notANumber(`steps[${index - before}]`, value));
    return typeof value === "number" ? value : null;
  });
  if (found.length > 0) return err(found);
  const of = (name: string): Uint8Array => read.get(name) ?? new Uint8Array();
  return ok({
    a: of("a"),
    b: of("b"),
    c: read.get("c") ?? null,
    sfa: read.get("sfa") ?? null,
    sfb: read.get("sfb") ?? null,
    steps,
  });
}

/**
 * Multiply: compile a kernel, run it on a GPU or the emulator, and return D. Errors, all of a stage at once: arguments that are not what they have to be
 * (TW7085, with their names), problems and schedules that are none, what the device says, and a hazard that the emulator finds (TW7061). Never throws for
 * what a caller hands over.
 */
export async function gemm(call: GemmCall): Promise<Checked<GemmOutcome>> {
  if (typeof call !== "object" || call === null || Array.isArray(call))
    return err([wrong("gemm", "gemm takes one object", "gemm({ m, n, k, a, b })")]);
  const found = objections(call);
  const problem = problemOf(call);
  if (found.length > 0 || !problem.ok) return err([...found, ...(problem.ok ? [] : problem.error)]);
  const inputs = inputsOf(call, problem.value);
  if (!inputs.ok) return inputs;
  const { backend, schedule, deterministic = false, device: kind = "auto" } = call;
  const target = call.arch ?? usualArch(compiler)(problem.value);
  const artifact = compiler.compile({
    ...{ problem: problem.value, target: target as ArchName, deterministic },
    ...(backend === undefined ? {} : { backend }),
    ...(schedule === undefined ? {} : { schedule }),
  });
  if (!artifact.ok) return artifact;
  const opened = await openDevice({ kind, arch: artifact.value.target.arch });
  if (!opened.ok) return opened;
  const device = opened.value;
  try {
    const ran = runGemm(device, artifact.value, inputs.value);
    if (!ran.ok) return ran;
    const hazards = ran.value.findings.filter(({ severity }) => severity === "error");
    if (hazards.length > 0 || !ran.value.completed)
      return err(hazards.map(({ rule, message }) => problemWith(codes.hazard, rule, message)));
    const { dtype } = problem.value.d;
    const before = call.bias === undefined ? 0 : 1;
    return ok({
      d: storageFromBytes(dtype, ran.value.d, Math.floor(ran.value.d.byteLength / sizeOf(dtype))),
      dtype,
      steps: new Map([...ran.value.steps].map(([index, bytes]) => [index - before, bytes])),
      device: { kind: device.kind, name: device.name },
      timeMs: ran.value.timeMs,
      artifact: artifact.value,
    });
  } finally {
    device.close();
  }
}
