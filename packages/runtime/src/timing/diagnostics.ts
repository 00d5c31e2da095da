/** Diagnostics of measuring: TW604x, each for one meaning. */
import type { Diagnostic, DiagnosticKind } from "@tilewright/core";

interface Row {
  readonly code: `TW6${string}`;
  readonly kind: DiagnosticKind;
}

const rows = {
  cublasMissing: { code: "TW6040", kind: "toolchain" },
  cublasVersion: { code: "TW6041", kind: "toolchain" },
  cublasCall: { code: "TW6042", kind: "toolchain" },
  cublasUnfit: { code: "TW6043", kind: "unsupported" },
  nvml: { code: "TW6044", kind: "toolchain" },
  starved: { code: "TW6045", kind: "toolchain" },
  impossible: { code: "TW6046", kind: "check" },
  unmeasurable: { code: "TW6047", kind: "unsupported" },
  wrongNumbers: { code: "TW6048", kind: "check" },
  unqueueable: { code: "TW6049", kind: "unsupported" },
} as const satisfies Record<string, Row>;

/** A diagnostic of the row `what`. */
export function measuringProblem(
  what: keyof typeof rows,
  at: string,
  message: string,
  hint?: string,
): Diagnostic {
  return { ...rows[what], at, message, ...(hint === undefined ? {} : { hint }) };
}

/** A failed `Checked` of one diagnostic. */
export const measuringFailure = (what: keyof typeof rows, at: string, message: string, hint?: string) =>
  ({ ok: false, error: [measuringProblem(what, at, message, hint)] }) as const;

/** Whether the host did not get ahead of the device: the one failure that a shorter queue can mend. */
export const isStarved = (problems: readonly Diagnostic[]): boolean =>
  problems.some(({ code }) => code === rows.starved.code);
