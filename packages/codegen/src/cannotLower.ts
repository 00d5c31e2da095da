/** A hand-edited program that is well-formed but that this backend cannot express. Caught by `lower`, turned into a diagnostic. */
export class CannotLower extends Error {
  readonly at: string;
  constructor(at: string, message: string) {
    super(message);
    this.at = at;
  }
}
