/**
 * Diagnostics: what went wrong, where, and what would work.
 * Codes are stable and never reused; `docs/errors.md` lists them.
 */
import type { Result } from "./ids.ts";

/**
 * - `invalid`: the request contradicts itself or is malformed (exit 2);
 * - `unsupported`: legal, but not here; the hint says what would work (exit 3);
 * - `toolchain`: ptxas, the driver or another tool is missing or failed (exit 4);
 * - `check`: numbers or hazards are wrong (exit 5);
 * - `internal`: a bug of Tilewright (exit 1).
 */
export type DiagnosticKind = "invalid" | "unsupported" | "toolchain" | "check" | "internal";

/** A position in a text: both 1-based. */
export interface SourceLocation {
  readonly line: number;
  readonly column: number;
  readonly file?: string;
}

export interface Diagnostic {
  /** `TW` and four digits. 1xxx problem and target, 2xxx schedule, 3xxx tile IR, 4xxx PTX, 5xxx emulator, 6xxx runtime, 7xxx CLI and files, 9xxx internal. */
  readonly code: `TW${string}`;
  readonly kind: DiagnosticKind;
  /** Path or name of what is at fault, e.g. `schedule.stages`, `%As`, `--a`. */
  readonly at: string;
  readonly message: string;
  /** What would work. */
  readonly hint?: string;
  readonly location?: SourceLocation;
}

/** Yes, or every reason why not. */
export type Verdict = Result<true, readonly Diagnostic[]>;

/** A value, or every reason why there is none. */
export type Checked<T> = Result<T, readonly Diagnostic[]>;

/** One diagnostic as text: `TW2107 (unsupported) at schedule.stages: … \n  hint: …`. */
export function formatDiagnostic(d: Diagnostic): string {
  const place = d.location ? `${d.location.file ?? "<text>"}:${d.location.line}:${d.location.column}: ` : "";
  const head = `${place}${d.code} (${d.kind}) at ${d.at}: ${d.message}`;
  return d.hint === undefined ? head : `${head}\n  hint: ${d.hint}`;
}

const exitCodes = {
  internal: 1,
  invalid: 2,
  unsupported: 3,
  toolchain: 4,
  check: 5,
} as const satisfies Record<DiagnosticKind, number>;

/** Exit code of a process that ends for this kind of reason. (0 is success, 6 slower than asked: no diagnostic has them.) */
export const exitCodeOf = (kind: DiagnosticKind): number => exitCodes[kind];

/** Thrown for bugs only; carries the diagnostics that a verifier found after a pass. */
export class InternalError extends Error {
  override readonly name = "InternalError";
  readonly diagnostics: readonly Diagnostic[];
  constructor(message: string, diagnostics: readonly Diagnostic[] = []) {
    super([message, ...diagnostics.map(formatDiagnostic)].join("\n"));
    this.diagnostics = diagnostics;
  }
}

/** The value, for programs that end on the first failure: throws an Error whose message has every reason and hint. */
export function unwrap<T>(result: Checked<T>): T {
  if (!result.ok) throw new Error(result.error.map(formatDiagnostic).join("\n"));
  return result.value;
}
