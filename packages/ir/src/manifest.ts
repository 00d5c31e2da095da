/**
 * The launch manifest: what any host needs to launch a kernel without parsing PTX.
 * The zod schema (and so the JSON Schema of `tilewright schema manifest`) is in `schema/manifest.ts`.
 */
import type { DType } from "./dtype.ts";

/**
 * Launch-time integer arithmetic as JSON: a number, the name of a dimension or attribute (`m`, `n`, `k`, `batch`, `lda`, `ldb`, `ldc`, `ldd`, `numSms`),
 * or an operation on expressions. `ceilDiv` rounds up, `div` down.
 */
export type LaunchExpr =
  | number
  | string
  | readonly ["add" | "sub" | "mul" | "div" | "ceilDiv" | "mod" | "min" | "max", LaunchExpr, LaunchExpr];

/** A condition that the launcher must check: `[op, lhs, rhs]`. */
export type Constraint = readonly ["eq" | "ne" | "lt" | "le" | "gt" | "ge", LaunchExpr, LaunchExpr];

export type ParamSpec =
  /** Device pointer to an operand. */
  | {
      readonly kind: "pointer";
      readonly name: "a" | "b" | "c" | "d" | "workspace";
      readonly offset: number;
      readonly size: 8;
      readonly align: number;
      readonly access: "read" | "write" | "readwrite";
    }
  /** A scalar of the problem, or a value computed from it. */
  | {
      readonly kind: "scalar";
      readonly name: string;
      readonly dtype: "f32" | "f64" | "u32" | "s32" | "u64";
      readonly offset: number;
      readonly size: number;
      readonly value: LaunchExpr;
    }
  /** 128-byte tensor map, 64-byte aligned, encoded by the driver from this recipe. */
  | {
      readonly kind: "tensorMap";
      readonly name: string;
      readonly offset: number;
      readonly size: 128;
      readonly tensorMap: {
        readonly operand: "a" | "b" | "c" | "d";
        readonly dtype: DType;
        readonly dims: readonly LaunchExpr[];
        /** Byte strides of dimensions 1 and up. */
        readonly strides: readonly LaunchExpr[];
        readonly box: readonly number[];
        readonly elementStrides: readonly number[];
        readonly interleave: "none" | "16B" | "32B";
        readonly swizzle: "none" | "32B" | "64B" | "128B";
        readonly l2: "none" | "64B" | "128B" | "256B";
        readonly oob: "zero" | "nan";
      };
    };

/** One kernel of an artefact: how to launch it. */
export interface KernelSpec {
  readonly entry: string;
  readonly role: "main" | "reduce";
  readonly launch: {
    readonly grid: readonly [LaunchExpr, LaunchExpr, LaunchExpr];
    readonly block: readonly [number, number, number];
    readonly cluster: readonly [number, number, number];
    /** Bytes of dynamic shared memory. */
    readonly dynamicSmem: number;
    /** Bytes of static shared memory in the PTX. */
    readonly staticSmem: number;
    readonly cooperative: boolean;
  };
  readonly params: readonly ParamSpec[];
  readonly workspaceBytes: LaunchExpr;
}
