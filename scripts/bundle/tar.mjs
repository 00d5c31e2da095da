// A writer of ustar archives whose bytes depend on the files alone: no times, no owners, sorted by path.
// System tars differ in their flags for this, and macOS has none of them.

/**
 * @typedef {{ path: string, data: Uint8Array, executable?: boolean }} BundleFile path: relative, with slashes
 */

const BLOCK = 512;

/** Whole files of zeros end an archive, and readers expect it to be a multiple of 20 blocks (tar's blocking factor). */
const RECORD = 20 * BLOCK;

/** Bytes of the name and prefix fields of a ustar header (POSIX.1-1988). */
const NAME_BYTES = 100;
const PREFIX_BYTES = 155;

/**
 * The archive's bytes. Folders get entries of their own, so that their modes do not depend on the reader's umask alone.
 * @param {readonly BundleFile[]} files in any order; two of one path or a path too long for ustar throw
 * @returns {Buffer}
 */
export function tarOf(files) {
  const folders = new Set(files.flatMap(({ path }) => parentsOf(path)));
  /** @type {{ path: string, data: Uint8Array, mode: number, type: "0" | "5" }[]} */
  const entries = [
    ...[...folders].map((path) => ({
      path: `${path}/`,
      data: new Uint8Array(),
      mode: 0o755,
      type: /** @type {const} */ ("5"),
    })),
    ...files.map(({ path, data, executable }) => ({
      path,
      data,
      mode: executable ? 0o755 : 0o644,
      type: /** @type {const} */ ("0"),
    })),
  ].sort((a, b) => (a.path < b.path ? -1 : 1));
  const repeated = entries.find(({ path }, index) => entries[index + 1]?.path === path);
  if (repeated !== undefined) throw new Error(`two files are named ${repeated.path}`);

  const blocks = entries.flatMap(({ path, data, mode, type }) => [
    header(path, data.byteLength, mode, type),
    data,
    Buffer.alloc(-data.byteLength & (BLOCK - 1)),
  ]);
  const written = blocks.reduce((sum, block) => sum + block.byteLength, 0) + 2 * BLOCK;
  const end = Buffer.alloc(2 * BLOCK + ((RECORD - (written % RECORD)) % RECORD));
  return Buffer.concat([...blocks, end]);
}

/** `a/b/c` has the parents `a` and `a/b`. @param {string} path */
function parentsOf(path) {
  const parts = path.split("/");
  return parts.slice(1).map((_, index) => parts.slice(0, index + 1).join("/"));
}

/** @param {string} path @param {number} size @param {number} mode @param {"0" | "5"} type file or folder */
function header(path, size, mode, type) {
  const { name, prefix } = split(path);
  const block = Buffer.alloc(BLOCK);
  /** @param {number} value @param {number} width */
  const octal = (value, width) => `${value.toString(8).padStart(width - 1, "0")}\0`;
  block.write(name, 0);
  block.write(octal(mode, 8), 100);
  block.write(octal(0, 8), 108); // uid
  block.write(octal(0, 8), 116); // gid
  block.write(octal(size, 12), 124);
  block.write(octal(0, 12), 136); // mtime: 1970
  block.write(" ".repeat(8), 148); // the checksum counts itself as spaces
  block.write(type, 156);
  block.write("ustar\x0000", 257);
  block.write("root", 265);
  block.write("root", 297);
  block.write(prefix, 345);
  const sum = block.reduce((total, byte) => total + byte, 0);
  block.write(`${sum.toString(8).padStart(6, "0")}\0 `, 148);
  return block;
}

/** ustar keeps a long path in two fields, cut at a slash that neither holds. @param {string} path */
function split(path) {
  if (Buffer.byteLength(path) <= NAME_BYTES) return { name: path, prefix: "" };
  for (let at = path.indexOf("/"); at !== -1; at = path.indexOf("/", at + 1)) {
    const [prefix, name] = [path.slice(0, at), path.slice(at + 1)];
    if (Buffer.byteLength(prefix) <= PREFIX_BYTES && name !== "" && Buffer.byteLength(name) <= NAME_BYTES)
      return { name, prefix };
  }
  throw new Error(`a path too long for a ustar archive: ${path}`);
}
