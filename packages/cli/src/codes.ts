/**
 * Diagnostic codes of the command line and its files (7xxx), one meaning each, never reused.
 * The other ranges belong to the packages that raise them.
 */
import {
  type Checked,
  type Diagnostic,
  type DiagnosticKind,
  err,
  type SourceLocation,
} from "@tilewright/core";
import data from "../data/codes.json" with { type: "json" };

interface CodeRow {
  readonly code: `TW7${string}`;
  readonly kind: DiagnosticKind;
  /** What the code means, for the reference of error codes. */
  readonly meaning: string;
}

export const codes = data as Readonly<Record<keyof typeof data, CodeRow>>;

/** A diagnostic of this package; its kind follows from its code. */
export function problemWith(
  row: CodeRow,
  at: string,
  message: string,
  more: { readonly hint?: string; readonly location?: SourceLocation } = {},
): Diagnostic {
  return { code: row.code, kind: row.kind, at, message, ...more };
}

/** One such diagnostic as the reason why there is no value. */
export const failWith = (...problem: Parameters<typeof problemWith>): Checked<never> =>
  err([problemWith(...problem)]);
