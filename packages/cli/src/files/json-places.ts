/** Where the fields of a JSON text stand, for diagnostics of values that are JSON but not what is due. */

export interface JsonPlace {
  /** From 1. */
  readonly line: number;
  readonly column: number;
}

const token = /[ \t\r\n]*("(?:[^"\\]|\\.)*"|[{}[\],:]|[^\s{}[\],:"]+)/y;

/**
 * The place of every value by its path (`buffers.a.shape[1]`): of its name where it has one. The text has to be JSON;
 * of names that occur twice the last counts, as for JSON.parse.
 */
export function placesOf(text: string): ReadonlyMap<string, JsonPlace> {
  const places = new Map<string, JsonPlace>();
  const starts = [0];
  for (let at = text.indexOf("\n"); at >= 0; at = text.indexOf("\n", at + 1)) starts.push(at + 1);
  const placeOf = (offset: number): JsonPlace => {
    let [low, high] = [0, starts.length];
    while (high - low > 1) {
      const middle = (low + high) >> 1;
      if ((starts[middle] ?? 0) <= offset) low = middle;
      else high = middle;
    }
    return { line: low + 1, column: offset - (starts[low] ?? 0) + 1 };
  };
  /** What holds the next value: path of the object or array, and the index of an array's next element. */
  const open: { readonly path: string; index: number | null }[] = [];
  /** Path of the value after a name. */
  let named: string | null = null;
  token.lastIndex = 0;
  for (let found = token.exec(text); found !== null; found = token.exec(text)) {
    const [whole, word = ""] = found;
    const offset = found.index + whole.length - word.length;
    const top = open.at(-1);
    if (word === "}" || word === "]") open.pop();
    else if (word === ",") {
      if (top !== undefined && top.index !== null) top.index += 1;
    } else if (word !== ":") {
      if (top !== undefined && top.index === null && named === null) {
        const key = String(JSON.parse(word));
        named = top.path === "" ? key : `${top.path}.${key}`;
        places.set(named, placeOf(offset));
        continue;
      }
      const path: string = named ?? (top === undefined ? "" : `${top.path}[${top.index}]`);
      if (named === null) places.set(path, placeOf(offset));
      named = null;
      if (word === "{" || word === "[") open.push({ path, index: word === "[" ? 0 : null });
    }
  }
  return places;
}

/** The place of a path, or of the nearest thing around it that the text has. */
export function placeAt(places: ReadonlyMap<string, JsonPlace>, path: string): JsonPlace | undefined {
  for (let at = path; at !== ""; at = at.replace(/(\.|^)[^.[\]]*$|\[\d+\]$/, "")) {
    const place = places.get(at);
    if (place !== undefined) return place;
  }
  return places.get("");
}
