import type { Diagnostic } from "../diagnostics.ts";

/** Diagnostics of requests and problems. */
export const problemCodes = {
  size: "TW1001",
  tooLarge: "TW1002",
  leadingDimension: "TW1003",
  alignment: "TW1004",
  betaAndC: "TW1005",
  dtypes: "TW1006",
  unknownDType: "TW1007",
  structure: "TW1008",
  operandBytes: "TW1009",
  batch: "TW1010",
  epilogue: "TW1011",
  scalar: "TW1012",
  text: "TW1013",
  precision: "TW1014",
  symbolic: "TW1016",
  blockScales: "TW1017",
  gated: "TW1018",
  attention: "TW1019",
  expertRows: "TW1020",
  weights: "TW1021",
} as const;

type Code = (typeof problemCodes)[keyof typeof problemCodes];

export const invalid = (code: Code, at: string, message: string, hint: string): Diagnostic => ({
  code,
  kind: "invalid",
  at,
  message,
  hint,
});

/** Adds reasons to a list. */
export const adding =
  (found: Diagnostic[]) =>
  (...reason: Parameters<typeof invalid>): void =>
    void found.push(invalid(...reason));
