/** Going on behind an error, so that independent ones are reported together. */
import { type Cursor, describe, ParseEnd, ParseFailure, parseCodes } from "./cursor.ts";

/** A statement or declaration owns its line: what follows on it is an error. */
export function endOfLine(c: Cursor, what: string): void {
  const token = c.peek();
  if (token.startsLine || token.kind === "end" || c.at("}")) return;
  c.fail(
    token,
    parseCodes.syntax,
    `unexpected ${describe(token)} after '${what}'`,
    "one statement a line; // starts a comment",
  );
}

/**
 * Run a parser; on failure record the diagnostic and go on where `resume` says, with the names on the failed line: behind the line and a body that opens on it unless told
 * otherwise. Names of a failed declaration go to `suspects`.
 */
export function attempt<T>(
  c: Cursor,
  parse: () => T,
  resume: Resume = skipLine,
  suspects?: Set<string>,
): T | null {
  const before = c.vars.length;
  const start = c.peek().offset;
  try {
    return parse();
  } catch (failure) {
    if (!(failure instanceof ParseFailure) || failure instanceof ParseEnd) throw failure;
    if (failure.diagnostic !== null) c.report(failure.diagnostic);
    c.vars.length = before;
    const names = namesOnLine(c.scanner.text, start);
    for (const name of names) suspects?.add(name);
    // A line that fails at its first word would be read for ever.
    if (c.peek().offset === start) c.next();
    resume(c, names);
    return null;
  }
}

/** The same of a whole text: null also where nothing more can be read. */
export function attemptAll<T>(c: Cursor, parse: () => T, resume?: Resume): T | null {
  try {
    return attempt(c, parse, resume);
  } catch (end) {
    if (!(end instanceof ParseEnd)) throw end;
    if (end.diagnostic !== null) c.diagnostics.push(end.diagnostic);
    return null;
  }
}

/** Every word of the line: what stands where a variable should may be one without its sign. */
function namesOnLine(text: string, start: number): string[] {
  const end = text.indexOf("\n", start);
  return text.slice(start, end < 0 ? text.length : end).match(/[A-Za-z_]\w*/g) ?? [];
}

export type Resume = (c: Cursor, names: readonly string[]) => void;

/** The rest of the line, and a body that opens on it. */
function skipLine(c: Cursor): void {
  for (let depth = 0; c.peek().kind !== "end"; c.next()) {
    if (depth === 0 && (c.peek().startsLine || c.at("}"))) return;
    depth += c.at("{") ? 1 : c.at("}") ? -1 : 0;
    if (depth === 0 && c.at("}")) {
      c.next();
      return;
    }
  }
}
