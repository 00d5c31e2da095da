/** What the compiling worker answers with: plain data, so that it can be cloned. */
import type { Diagnostic } from "@tilewright/core";
import type { BankMap, Plan } from "tilewright";
import type { Edit } from "../model/state.ts";

export interface Ask {
  readonly arch: string;
  readonly gpu: string;
  readonly backend: string;
  readonly schedule: string;
  readonly problem: unknown;
  readonly edit: Edit | null;
  /** Compile an edited text without the verifiers' leave. */
  readonly unproven: boolean;
}

/** The program after a pass. */
export interface Step {
  readonly pass: string;
  readonly summary: string;
  readonly stage: string;
  readonly changed: boolean;
  /** It can be fed back in: not where the next pass has to complete it. */
  readonly editable: boolean;
  /** A text of the same language as that of the step before, which it can be compared with. */
  readonly follows: boolean;
  readonly text: string;
}

/** Lines of the last stage and of the PTX that belong together, both counted from 1. */
export interface Links {
  /** For each line of PTX (index 0 is line 1) the line of the last stage's text that it was made for; 0 for none. */
  readonly ofPtx: readonly number[];
}

export interface Kernel {
  readonly backend: string;
  /** Canonical text; null where compiling went on from an edited program. */
  readonly schedule: string | null;
  readonly entry: string;
  readonly steps: readonly Step[];
  readonly ptx: string;
  readonly links: Links | null;
  /** JSON text. */
  readonly manifest: string;
  /** The program over named axes that results are held against; null: the manifest's product says what they are. */
  readonly source: string | null;
  /** Multiply-adds. */
  readonly products: number;
  /** What the request's own kernel is made by, of which an edited text is a stage; the schedule is empty where there is none. */
  readonly chosen: { readonly backend: string; readonly schedule: string };
}

export interface Compiled {
  /** Null of a kernel that came with the page. */
  readonly ms: number | null;
  /** Null where there is none; then diagnostics say why. */
  readonly kernel: Kernel | null;
  /** Reasons, or what the verifiers say of a kernel compiled without their leave. */
  readonly diagnostics: readonly Diagnostic[];
}

interface FieldInfo {
  readonly name: string;
  readonly summary: string;
  readonly syntax: string;
  readonly default: string;
  readonly off: string | null;
}

/** Backend and architecture are null where they are the request's. */
interface LadderInfo {
  readonly backend: string | null;
  readonly arch: string | null;
  readonly name: string;
  readonly summary: string;
}

/** What there is to choose from. */
export interface World {
  readonly version: string;
  readonly stages: readonly string[];
  readonly targets: readonly string[];
  readonly gpus: readonly { readonly name: string; readonly arch: string }[];
  readonly dtypes: readonly string[];
  readonly backends: readonly {
    readonly id: string;
    readonly summary: string;
    readonly fields: readonly FieldInfo[];
  }[];
  readonly ladders: readonly LadderInfo[];
}

/** A schedule that was not taken, or was, with what the model says of it. */
export interface Candidate {
  readonly backend: string;
  readonly schedule: string;
  /** Fields that differ from the schedule in use, or from the first of its backend. */
  readonly differs: string;
  readonly timeUs: number | null;
  readonly bound: string | null;
  /** Microseconds of `timeUs` by cause; empty where the model has no numbers. */
  readonly causes: readonly (readonly [cause: string, us: number])[];
  /** What it loses to the schedule in use by; `taken` of that one. */
  readonly why: string;
  /** CTAs that an SM holds; null where no GPU is known. */
  readonly blocksPerSm: number | null;
  readonly waves: number;
}

export interface RasterPicture {
  readonly order: string;
  readonly tiles: readonly [rows: number, columns: number];
  /** Number of each tile in the order of visits, row by row; cut to at most 64 x 64 tiles. */
  readonly numbers: readonly number[];
  readonly shown: readonly [rows: number, columns: number];
  /** Tiles in one wave. */
  readonly wave: number;
}

/** A fragment: which thread and register hold each element. */
export interface OwnerPicture {
  readonly name: string;
  readonly rows: number;
  readonly columns: number;
  /** Row by row; -1 where several threads hold the element, which the lowest stands for. */
  readonly threads: readonly number[];
  readonly registers: readonly number[];
  /** Of a tile in tensor memory: `threads` are lanes, `registers` columns. */
  readonly tensor?: true;
}

/** An accumulator or operand in tensor memory: 32-bit columns of one slot. */
export interface TensorTile {
  readonly name: string;
  readonly columns: number;
  readonly slots: number;
}

export interface Pictures {
  readonly tensor: readonly TensorTile[];
  readonly plan: Plan | null;
  readonly planReasons: readonly Diagnostic[];
  readonly banks: readonly BankMap[];
  readonly raster: RasterPicture | null;
  readonly owners: readonly OwnerPicture[];
}

export interface RungReport {
  readonly name: string;
  readonly summary: string;
  readonly change: string;
  readonly schedule: string;
  readonly refused: readonly string[] | null;
  readonly text: string;
  readonly ptxLines: number;
  readonly instructions: Readonly<Record<string, number>>;
  readonly sharedBytes: number;
  /** Tiles in shared memory, bytes of all their slots, and how much a block may have. */
  readonly shared: readonly { readonly name: string; readonly bytes: number }[];
  readonly sharedLimit: number;
  /** Of this step at the sizes for a GPU, or of the request at hand; null where the model has no numbers, or the step is not legal there. */
  readonly predicted: {
    readonly gpu: string;
    readonly size: string;
    readonly us: number;
    readonly tflops: number;
    readonly bound: string;
  } | null;
  readonly problem: Readonly<Record<string, unknown>>;
}

/** Whose ladder is asked for, in the words of a request for attention. */
export interface AttentionAsk extends Pick<Ask, "arch" | "gpu" | "backend"> {
  readonly problem: RungReport["problem"];
}

export interface LadderReport {
  readonly backend: string;
  readonly rungs: readonly RungReport[];
  /** Why there are none. */
  readonly diagnostics: readonly Diagnostic[];
}
