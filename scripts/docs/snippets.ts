/** The fenced blocks of every Markdown page of the repository, and the commands in them. */
import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { root } from "../lib/files.ts";

export interface Fence {
  /** Path from the root. */
  readonly page: string;
  /** Line of the opening fence, from 1. */
  readonly line: number;
  /** First word of the info string; empty where there is none. */
  readonly language: string;
  /** The other words: why it cannot run everywhere (`gpu`, `network`), or which test runs it (`test=PATH`). */
  readonly marks: readonly string[];
  readonly text: string;
}

/** Made by tools, made by tests, or notes of releases: no documentation. */
const skipped = /(^|\/)(node_modules|out|dist|test|\.[^/]+)(\/|$)/;

/** Every page, as a path from the root. */
export function pagesOf(folder = ""): readonly string[] {
  return readdirSync(join(root, folder), { withFileTypes: true })
    .flatMap((entry) => {
      const path = folder === "" ? entry.name : `${folder}/${entry.name}`;
      if (skipped.test(path)) return [];
      return entry.isDirectory() ? pagesOf(path) : path.endsWith(".md") ? [path] : [];
    })
    .sort();
}

/** The fenced blocks of a page. Error: a fence without an end. */
export function fencesOf(page: string, text = readFileSync(join(root, page), "utf8")): readonly Fence[] {
  const found: Fence[] = [];
  let open: { readonly line: number; readonly info: readonly string[]; readonly from: number } | null = null;
  const lines = text.split("\n");
  lines.forEach((line, i) => {
    const info = /^```(.*)$/.exec(line)?.[1];
    if (info === undefined) return;
    if (open === null) open = { line: i + 1, info: info.trim().split(/\s+/), from: i + 1 };
    else {
      const [language = "", ...marks] = open.info;
      found.push({ page, line: open.line, language, marks, text: lines.slice(open.from, i).join("\n") });
      open = null;
    }
  });
  if (open !== null) throw new Error(`${page}: a fence has no end`);
  return found;
}

/** Words of a line up to a comment, quoted ones as one. */
export const wordsOf = (line: string): readonly string[] =>
  [...line.replace(/ +# .*/, "").matchAll(/"([^"]*)"|(\S+)/g)].map(
    ([, quoted, plain]) => quoted ?? plain ?? "",
  );

/** What begins a command, in a shell or in prose. */
export const commandWord = /^(npx|npm|node|tilewright|python3?|pip|tar|compute-sanitizer)\s/;

/** Commands that stand in a page's sentences and tables: code in backticks that begins as one. */
export function inlineCommands(text: string): readonly string[] {
  const prose = text.replace(/^```.*?^```/gms, "");
  return [...prose.matchAll(/`([^`\n]+)`/g)].flatMap(([, code = ""]) =>
    /^(npx tilewright|tilewright|npm run|node scripts\/)\s/.test(code) ? [code] : [],
  );
}
