/** Where a text stops being JSON: JSON.parse says so in words that differ between engines, or not at all. */

const space = /[ \t\r\n]*/y;
const number = /-?(0|[1-9]\d*)(\.\d+)?([eE][+-]?\d+)?/y;
/** Of the control characters, which JSON has escaped, those that people leave in by mistake. */
const string = /"(?:[^"\\\n\r\t]|\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4}))*"/y;
const word = /true|false|null/y;

/** What would have to stand at an offset. */
export interface JsonError {
  /** Characters from the start of the text. */
  readonly offset: number;
  readonly expected: string;
}

class Unexpected extends Error {
  readonly at: JsonError;
  constructor(at: JsonError) {
    super(at.expected);
    this.at = at;
  }
}

/** The first syntax error of a text, null for JSON (RFC 8259). */
export function findJsonError(text: string): JsonError | null {
  let at = 0;
  const skip = (pattern: RegExp): boolean => {
    pattern.lastIndex = at;
    const found = pattern.exec(text);
    if (found !== null) at += found[0].length;
    return found !== null;
  };
  const fail = (expected: string): never => {
    throw new Unexpected({ offset: at, expected });
  };
  const next = (character: string): boolean => {
    skip(space);
    if (text[at] !== character) return false;
    at += 1;
    return true;
  };
  const key = (): void => {
    skip(space);
    if (!skip(string)) fail("a name in double quotes");
    if (!next(":")) fail("a colon");
    value();
  };
  const items = (close: string, item: () => void): void => {
    if (next(close)) return;
    do item();
    while (next(","));
    if (!next(close)) fail(`a comma or '${close}'`);
  };
  const value = (): void => {
    skip(space);
    if (next("{")) items("}", key);
    else if (next("[")) items("]", value);
    else if (!skip(string) && !skip(number) && !skip(word)) fail("a value");
  };
  try {
    value();
    skip(space);
    if (at < text.length) fail("the end of the text");
    return null;
  } catch (error) {
    if (error instanceof Unexpected) return error.at;
    // Nested beyond the stack: the caller has JSON.parse's own word.
    if (error instanceof RangeError) return null;
    throw error;
  }
}
