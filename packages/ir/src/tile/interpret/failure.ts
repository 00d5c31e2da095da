/** Faults that the interpreter finds while running; never leaves the interpreter. */
import type { Diagnostic } from "@tilewright/core";

/** Codes of the interpreter; ../README.md says what each means. */
export const interpretCodes = {
  input: "TW3301",
  outOfBounds: "TW3302",
  uninitialised: "TW3303",
  protocol: "TW3304",
  deadlock: "TW3305",
  inFlight: "TW3306",
  incomplete: "TW3307",
  tooLong: "TW3308",
} as const;

/** Ends the run; `interpret` turns it into a diagnostic. */
export class InterpretFailure extends Error {
  readonly diagnostic: Diagnostic;
  constructor(code: Diagnostic["code"], at: string, message: string, hint: string) {
    super(message);
    const kind = code === interpretCodes.input ? "invalid" : "check";
    this.diagnostic = { code, kind, at, message, hint };
  }
}

/** Ends the run: what was handed in is not what the program takes. */
export function failInput(at: string, message: string, hint: string): never {
  throw new InterpretFailure(interpretCodes.input, at, message, hint);
}
