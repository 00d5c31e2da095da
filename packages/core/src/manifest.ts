/**
 * The launch manifest: what any host needs to launch a kernel without parsing PTX. Its fields are those of the zod schema in `schema/manifest.ts`, which says what each
 * of them is (`tilewright schema manifest` prints it).
 */
import type { z } from "zod";
import type { Frozen } from "./ids.ts";
import type { Problem } from "./problem.ts";
import type { manifestSchema } from "./schema/manifest.ts";

/** Bytes; cudaMalloc's alignment: workspaces hold counters, partial sums of any dtype and copies of operands. */
export const WORKSPACE_ALIGN = 256;

/**
 * Launch-time integer arithmetic as JSON: a number, the name of a dimension or attribute (`m`, `n`, `k`, `batch`, `lda`, `ldb`, `ldc`, `ldd`, `strideA` … `strideD`, `numSms`; as a parameter's value also `alpha`, `beta`),
 * or an operation on expressions. `epilogueI` is the launch-time scalar of step I. `ceilDiv` rounds up, `div` down; they and `mod` take integers only. `launch/evaluate.ts` evaluates.
 */
export type LaunchExpr =
  | number
  | string
  | readonly ["add" | "sub" | "mul" | "div" | "ceilDiv" | "mod" | "min" | "max", LaunchExpr, LaunchExpr];

/**
 * The manifest of one artefact (`*.gemm.json`): what any host needs to pick, load and launch its kernels. Canonical key order is that of
 * the schema; no absolute paths, no times. Readers ignore fields they do not know and refuse other values of `schemaVersion`.
 */
export type Manifest = Omit<Frozen<z.output<typeof manifestSchema>>, "request"> & {
  readonly request: Problem;
};

/** A condition that the launcher must check: `[op, lhs, rhs]`. */
export type Constraint = Manifest["constraints"][number];

/** One kernel of an artefact: how to launch it. */
export type KernelSpec = Manifest["kernels"][number];

/** A parameter of a kernel: a device pointer, a scalar, or a tensor map, encoded by the driver from its recipe. */
export type ParamSpec = KernelSpec["params"][number];

/** How the table of a grouped problem lies in device memory: one row a group, `bytes` apart, each with these fields. Little-endian. */
export type GroupRow = NonNullable<KernelSpec["groups"]>;

/** A value in the row of a group: a size, unsigned, of 4 bytes, or a device pointer to an operand. */
export type GroupField = GroupRow["fields"][number];

/** A file with code. Paths are relative to the manifest's folder. */
export type ManifestImage = Manifest["images"][number];

/** What ptxas said; null as a whole where it was not run. */
export type ManifestResources = NonNullable<Manifest["resources"]>;

/** What ptxas said about one kernel, assembled for one architecture. */
export type KernelResources = ManifestResources["kernels"][number];

/** What a kernel was checked by before it shipped (`compile --library --certify`). It had no finding, and every order gave the same bits. */
export type Certificate = NonNullable<Manifest["certificate"]>;

/** A parameter of a program over named axes: the operand that a launch knows it as, and how it lies in memory. */
export type ManifestTensor = NonNullable<Manifest["tensors"]>[number];

/** O = softmax(scale * Q.K^T + bias, mask) . V; bias and slopes are among the tensors. */
export type ManifestAttention = NonNullable<Manifest["attention"]>;
