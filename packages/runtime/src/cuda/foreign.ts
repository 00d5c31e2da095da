/** Binding a table of C prototypes to a loaded library. */

/** What koffi gives for a loaded library. */
export interface Library {
  func(prototype: string): (...args: readonly unknown[]) => unknown;
}

export type ForeignFunctions<Name extends string> = Readonly<
  Record<Name, (...args: readonly unknown[]) => unknown>
>;

/** Each row lists its symbols from the newest to the oldest; the first one that the library exports is used. `missing`: C names; none where `otherwise` stands for them. */
export function bindFunctions<Name extends string>(
  library: Library,
  prototypes: Readonly<Record<Name, readonly string[]>>,
  otherwise: (() => unknown) | null = null,
): { readonly functions: ForeignFunctions<Name>; readonly missing: readonly string[] } {
  const functions: Partial<Record<Name, (...args: readonly unknown[]) => unknown>> = {};
  const missing: string[] = [];
  for (const [key, candidates] of Object.entries(prototypes) as [Name, readonly string[]][]) {
    const found =
      candidates.map((candidate) => exported(library, candidate)).find((fn) => fn !== null) ?? otherwise;
    if (found === null) missing.push(/(\w+)\s*\(/.exec(candidates[0] ?? "")?.[1] ?? key);
    else functions[key] = found;
  }
  return { functions: functions as ForeignFunctions<Name>, missing };
}

function exported(library: Library, prototype: string): ((...args: readonly unknown[]) => unknown) | null {
  try {
    return library.func(prototype);
  } catch {
    return null;
  }
}
