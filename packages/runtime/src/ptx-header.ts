/**
 * The few facts of a PTX text that a launcher needs: version, target, and the parameters of an entry.
 * A scanner and not the parser of @tilewright/ptx: the driver may accept instructions which that table lacks.
 */
import type { PtxVersion } from "@tilewright/core";

export interface PtxHeader {
  readonly version: PtxVersion;
  /** First word of `.target`, e.g. `sm_90a`. */
  readonly target: string;
}

/** A parameter as the entry declares it. */
export interface ParamInfo {
  readonly name: string;
  /** PTX type without its dot: `u64`, `f32`, `b8` (an array). */
  readonly type: string;
  /** Bytes. */
  readonly size: number;
}

/** Comments become spaces, so that positions of lines stay. */
const withoutComments = (text: string): string =>
  text.replace(/\/\*[\s\S]*?\*\/|\/\/[^\n]*/g, (comment) => comment.replace(/[^\n]/g, " "));

/** `.version` and `.target` of a text; null when either is missing, which means that it is no PTX. */
export function readPtxHeader(text: string): PtxHeader | null {
  // Both stand before the first entry; a module may be megabytes long.
  const head = withoutComments(text.slice(0, 65_536));
  const version = /^\s*\.version\s+(\d+)\.(\d+)/m.exec(head);
  const target = /^\s*\.target\s+(\w+)/m.exec(head);
  if (version === null || target === null) return null;
  return { version: [Number(version[1]), Number(version[2])], target: target[1] ?? "" };
}

const typeBytes: Readonly<Record<string, number>> = {
  b8: 1,
  u8: 1,
  s8: 1,
  b16: 2,
  u16: 2,
  s16: 2,
  f16: 2,
  b32: 4,
  u32: 4,
  s32: 4,
  f32: 4,
  b64: 8,
  u64: 8,
  s64: 8,
  f64: 8,
};

const param =
  /^\.param\b\s*(?:\.align\s+\d+\s*)?\.(\w+)((?:\s*\.\w+(?:\s+\d+)?)*)\s+([\w$%]+)\s*(?:\[\s*(\d+)\s*\])?$/;

/** Entries of a text with their parameters in order. Null for an entry whose parameters this scanner cannot read. */
export function readEntries(text: string): ReadonlyMap<string, readonly ParamInfo[] | null> {
  const entries = new Map<string, readonly ParamInfo[] | null>();
  for (const match of withoutComments(text).matchAll(/\.entry\s+([\w$%]+)\s*(?:\(([^)]*)\))?/g)) {
    entries.set(match[1] ?? "", readParams(match[2] ?? ""));
  }
  return entries;
}

function readParams(list: string): readonly ParamInfo[] | null {
  if (list.trim() === "") return [];
  const params: ParamInfo[] = [];
  for (const declaration of list.split(",")) {
    const match = param.exec(declaration.trim().replace(/\s+/g, " "));
    const width = typeBytes[match?.[1] ?? ""];
    if (match === null || width === undefined) return null;
    const count = match[4] === undefined ? 1 : Number(match[4]);
    params.push({ name: match[3] ?? "", type: match[1] ?? "", size: width * count });
  }
  return params;
}
