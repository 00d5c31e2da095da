/** Names of schedule fields, directives, statements, passes, files and exports are the field's terms, one meaning each (docs/glossary.md). */
import { readFileSync } from "node:fs";
import { basename, join } from "node:path";
import { mma } from "@tilewright/backend-mma";
import { simt } from "@tilewright/backend-simt";
import { tcgen05 } from "@tilewright/backend-tcgen05";
import { wgmma } from "@tilewright/backend-wgmma";
import { describe, expect, test } from "vitest";
import { argumentsOf, directiveNames } from "../packages/ir/src/tile/directives.ts";
import { statementSyntax } from "../packages/ir/src/tile/text/statements.ts";
import { filesUnder, packageFolders, root } from "./lib/files.ts";

/** A word that names nothing here, and what is written instead. */
const instead: ReadonlyMap<string, string> = new Map(
  Object.entries({
    turn: "ping-pong",
    deal: "interleaved, distribution",
    dealt: "interleaved, distribution",
    visit: "persistent CTA, tile scheduler, work tile",
    stay: "persistent CTA",
    late: "delayed release, aliased",
    addend: "source operand, epilogue load",
    meet: "DSMEM reduction",
    meeting: "DSMEM reduction",
    combine: "split-K reduction",
    part: "partial tile",
    share: "stream-K",
    sharing: "split-K",
    lap: "overlapping accumulators",
    answer: "CLC response",
    fetch: "scheduler pipeline, L2 prefetch",
    solo: "elected thread",
    crew: "role threads",
    lead: "prologue",
    promote: "two-level accumulation",
    promoted: "two-level accumulation",
    passing: "no allocation in L1",
    overlap: "PDL (programmatic dependent launch)",
    early: "early producer start, early accumulator release",
    prefetch: "L2 prefetch, register prefetch",
  }),
);

/** Terms that a word above belongs to. The last three are PTX instructions. */
const terms =
  /overlapAccumulators|earlyProducer(?:Start)?|earlyAccumulatorRelease|(?:l2|register)Prefetch|prefetchL2|bulkPrefetch|tensorPrefetch|tensormap\.?prefetch/gi;

/** `leadChunk` or `cut-part` as words in lower case, a plural as its singular where that is what the table has. */
const wordsOf = (name: string): readonly string[] =>
  name
    .replace(terms, "")
    .split(/(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])|[^A-Za-z0-9]+/)
    .map((word) => word.toLowerCase())
    .map((word) => (!instead.has(word) && instead.has(word.replace(/s$/, "")) ? word.slice(0, -1) : word));

/** Names with such a word, each with what to write. */
const wrong = (names: Iterable<string>): readonly string[] =>
  [...names].flatMap((name) =>
    wordsOf(name).flatMap((word) => {
      const term = instead.get(word);
      return term === undefined ? [] : [`${name}: write ${term}, not ${word}`];
    }),
  );

const sources = packageFolders().flatMap((folder) => filesUnder(`${folder}/src`, ".ts"));

describe("no name has a word that the glossary replaces", () => {
  test.each([simt, mma, wgmma, tcgen05].map(({ id, schedule }) => [id, schedule] as const))(
    "schedule fields of %s",
    (_id, { fields }) => expect(wrong(fields.map(({ name }) => name))).toEqual([]),
  );

  test("directives and their arguments", () => {
    const names = directiveNames.flatMap((name) => [name, ...argumentsOf(name).map(([key]) => key)]);
    expect(wrong(names)).toEqual([]);
  });

  test("statements", () => expect(wrong(Object.keys(statementSyntax))).toEqual([]));

  test.each([
    ["docs/tile-ir.md", /^```\w*\n(tile\.ir [\s\S]*?)^```/gm],
    ["packages/ir/src/tile/README.md", /^\| `([^`]+)`/gm],
    ["packages/ir/src/tile/directives.md", /`([^`]+)`/g],
  ])("texts of programs: %s", (page, code) => {
    const names = [...readFileSync(join(root, page), "utf8").matchAll(code)].flatMap(
      ([, text = ""]) => text.replace(/\/\/.*/g, "").match(/[A-Za-z_][\w.]*/g) ?? [],
    );
    expect(names.length).toBeGreaterThan(100);
    expect(wrong(new Set(names))).toEqual([]);
  });

  test("files, of passes among them", () =>
    expect(wrong(sources.map((file) => basename(file, ".ts")))).toEqual([]));

  test("exported names", () => {
    const names = sources.flatMap((file) =>
      [
        ...readFileSync(join(root, file), "utf8").matchAll(
          /^export (?:async )?(?:const|function\*?|class|interface|type) (\w+)/gm,
        ),
      ].map(([, name = ""]) => name),
    );
    expect(names.length).toBeGreaterThan(1000);
    expect(wrong(names)).toEqual([]);
  });
});

test("words are found in any spelling, and terms that have them are none", () => {
  expect(wrong(["takeTurns", "cut-parts", "MOST_LAP", "early"])).toHaveLength(4);
  expect(wrong(["earlyProducerStart", "l2PrefetchSizes", "overlapAccumulators", "sharedMemory"])).toEqual([]);
});
