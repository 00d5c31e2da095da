import type { Stmt } from "@tilewright/ir";

/** A hand-edited program that is well-formed but that this backend cannot express. Caught by `lower`, turned into a diagnostic. */
export class CannotLower extends Error {
  readonly at: string;
  /** The innermost statement that was being emitted; null outside of all. */
  stmt: Stmt | null = null;
  constructor(at: string, message: string) {
    super(message);
    this.at = at;
  }
}
