/** Exit codes of the command line (a contract: scripts depend on them). */
import type { Diagnostic, DiagnosticKind } from "@tilewright/core";

export const exitCodes = {
  ok: 0,
  internal: 1,
  invalid: 2,
  unsupported: 3,
  toolchain: 4,
  check: 5,
  slower: 6,
  /** 128 + SIGINT, as a shell reports it. */
  interrupted: 130,
} as const;

/** The kind that decides when several are reported: a bug first, then what the user must mend before the rest means anything. */
const precedence: readonly DiagnosticKind[] = ["internal", "invalid", "unsupported", "toolchain", "check"];

/** The exit code for a failure with these diagnostics (never 0). */
export function exitCodeFor(diagnostics: readonly Diagnostic[]): number {
  const kind = precedence.find((candidate) => diagnostics.some((d) => d.kind === candidate));
  return exitCodes[kind ?? "internal"];
}
