/** Refusals while decoding: thrown inside the loader, turned into diagnostics at its edge, so that one pass finds all. */

/** The instruction is valid PTX, or may be, but the emulator does not execute it. */
export class Refusal extends Error {
  override readonly name = "Refusal";
  readonly hint: string | null;
  readonly code: `TW50${string}`;
  constructor(code: `TW50${string}`, message: string, hint: string | null = null) {
    super(message);
    this.code = code;
    this.hint = hint;
  }
}
