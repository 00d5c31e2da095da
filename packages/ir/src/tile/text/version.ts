/** The first line of a text, `tile.ir 6`: the version of all that follows it, however many kernels that are. */
import { type Cursor, parseCodes } from "./cursor.ts";

const KEYWORD = "tile.ir";
const FORMAT_VERSION = 6;

/** The line itself, without its end. */
export const versionLine = `${KEYWORD} ${FORMAT_VERSION}`;

interface Version {
  readonly version: number;
  /** What is new, and how a text of the version before becomes one of this. */
  readonly changed: string;
  readonly convert: string;
}

/** Every version behind the first, which had no version line. The last is what printers write and parsers read. */
const history: readonly Version[] = [
  {
    version: 2,
    changed:
      "texts begin with their version, directives take no arguments but their own, and stage machine follows bound",
    convert: `write '${versionLine}' on a line before 'tile.kernel', then correct what is refused`,
  },
  {
    version: 3,
    changed:
      "'combine' is 'reduce', 'fetch' 'request', 'lead' 'prologue'; 'visit' is 'persistent' and 'share' 'streamk'; 'late' is 'aliased', 'lap' 'overlapped', 'one' 'elected', 'promote' of a product 'twoLevel', 'prefetch' of a copy 'l2Prefetch'; buffers have 'l2Promotion', 'l2PrefetchBytes' and 'noAllocate', launches 'pdl', 'earlyProducerStart' and 'nonPortableCluster'; directives have the names of the schedule's fields",
    convert: `write '${versionLine}' in its first line and these names, or print it again from its schedule`,
  },
  {
    version: 4,
    changed:
      "in stage machine an epilogue through shared memory has its stores as statements, the first product of a tensor accumulator overwrites it where it was filled, 'mbar.init' names slots, and kernels say with 'keep' what stays in registers",
    convert: `write '${versionLine}' in its first line, and print a text of stage machine again from its schedule`,
  },
  {
    version: 5,
    changed:
      "in stage machine epilogues whose threads store from shared memory and reductions by bulk copies say by statements how they go; sums that are promoted are products of their own behind a fence, and 'promote' adds them by factors that 'copy' has loaded into registers",
    convert: `write '${versionLine}' in its first line, and print a text of stage machine again from its schedule`,
  },
  {
    version: 6,
    changed:
      "of a persistent loop 'turn' is 'pingPong'; of a scheduler 'late' is 'deferred' and 'shares' 'streamk'; 'parts' of partial tiles are 'partials'; directive 'deal' is 'distribute', and 'deal' of 'tensor' 'interleave'; 'dealt' of a layout is 'interleaved'; in stage machine kernels declare the arrays that they address, with 'size', 'batch', 'experts' and 'runs' before them, 'region' what lies in the workspace, and 'kernel' states what kernels beside the main one do, in place of 'sum', 'transpose of' and 'result'",
    convert: `write '${versionLine}' in its first line and these names, or print it again from its schedule`,
  },
];

/** Reads the version line; returns true. Fails (TW3006) on another version and on none, and says how the text becomes one of this. */
export function parseVersion(c: Cursor): true {
  const unnamed = c.at("tile.kernel");
  if (!unnamed) c.expect(KEYWORD, "at the start of a text");
  const token = c.peek();
  const version = unnamed ? 1 : c.integer("the version of the text", 1);
  if (version === FORMAT_VERSION && !unnamed) return true;
  const later = history.filter((row) => row.version > version);
  const what = unnamed ? "the text has no version line" : `the text is of version ${version}`;
  const news = later.map((row) => `; since version ${row.version} ${row.changed}`).join("");
  return c.fail(
    token,
    parseCodes.version,
    `${what}, and this release reads version ${FORMAT_VERSION}${news}`,
    [...new Set(later.map((row) => row.convert))].join("; ") ||
      "print it again with this release, or use the one that wrote it",
  );
}
