/** What the running worker is asked and answers. */

import type { Diagnostic } from "@tilewright/core";
import type { Counters, Finding } from "@tilewright/emulator";
import type { Heat } from "../model/heat.ts";

export type Order = "eager" | "lazy" | "random";

export interface RunAsk {
  readonly ptx: string;
  /** JSON text of the manifest. */
  readonly manifest: string;
  /** The program over named axes that says what is right; null: the manifest's product does. */
  readonly source: string | null;
  readonly arch: string;
  readonly orders: readonly Order[];
  readonly seed: number;
}

export interface OrderReport {
  readonly order: Order;
  readonly completed: boolean;
  readonly timeMs: number;
  readonly findings: readonly Finding[];
  /** Largest error over its bound; null where the run was given up. */
  readonly boundRatio: number | null;
  readonly maxAbs: number;
  readonly failures: number;
  readonly worst: {
    readonly row: number;
    readonly column: number;
    readonly actual: number;
    readonly expected: number;
  } | null;
}

export interface RunReport {
  /** Why nothing ran; empty when something did. */
  readonly reasons: readonly Diagnostic[];
  readonly orders: readonly OrderReport[];
  readonly counters: Counters | null;
  /** Of the worst order. */
  readonly heat: Heat | null;
  readonly ms: number;
  /** Orders whose D differs in bits from the first's. */
  readonly differing: readonly Order[];
}

export interface ForeignAsk {
  readonly ptx: string;
  /** JSON text of the launch file. */
  readonly launch: string;
  /** Dropped arrays, by the names that the launch file has for them. */
  readonly files: Readonly<Record<string, Uint8Array>>;
  readonly orders: readonly Order[];
  readonly seed: number;
}

export interface ForeignRun {
  readonly order: Order;
  readonly completed: boolean;
  readonly timeMs: number;
  readonly findings: readonly Finding[];
  /** Buffers that were compared with what the launch file expects. */
  readonly checks: readonly {
    readonly buffer: string;
    readonly elements: number;
    readonly failures: number;
    readonly maxAbs: number;
  }[];
}

export interface ForeignReport {
  /** Why nothing ran; empty when something did. */
  readonly reasons: readonly Diagnostic[];
  readonly runs: readonly ForeignRun[];
  readonly ms: number;
}
