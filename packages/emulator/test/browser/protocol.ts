/** What the test gives the page and what the page says. */
import type { LaunchConfig } from "../../src/index.ts";

/** A golden kernel: C[256][256] from A[256][512] and B. */
export interface BrowserKernel {
  readonly name: string;
  readonly text: string;
  readonly entry: string;
  readonly inputs: "f32" | "f16";
  /** Rows of B's box where operands come by tensor maps. */
  readonly bBox: number | null;
  /** The results leave through a tensor map, too. */
  readonly stores: boolean;
  readonly launch: Omit<LaunchConfig, "params">;
}

export interface PageData {
  readonly kernels: readonly BrowserKernel[];
  /** The host's WebAssembly: all of it, none, or one that compiles at most 4 KB at once. */
  readonly wasm: "whole" | "none" | "limited";
}

export interface PageResult {
  readonly agent: string;
  readonly milliseconds: number;
  /** C's bytes in base64, or what went wrong. */
  readonly results: readonly ({ readonly words: string } | { readonly error: string })[];
}
