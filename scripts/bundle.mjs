// npm run bundle [-- --xz]: one archive that runs the command line on a Linux x64 GPU machine without Node and without internet.
// It is unpacked and put through its own self-test before it takes its place in out/.

import { spawnSync } from "node:child_process";
import { mkdirSync, mkdtempSync, renameSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join, relative } from "node:path";
import { gzipSync } from "node:zlib";
import { archiveName, contents, FOLDER, strippedNode, whyNot } from "./bundle/contents.mjs";
import { tarOf } from "./bundle/tar.mjs";
import { install, progress, root, runMain, Stop } from "./lib/workspace.mjs";

/**
 * Most bytes of the archive: it is carried to machines over slow links and size limits. Measured with Node 24.21: 44.2 MB
 * with gzip and 29.1 with xz, of which Node is 40.3 and 27.3. The room is for Node's next versions.
 */
const MOST_BYTES = { gz: 50_000_000, xz: 36_000_000 };

/**
 * Level 6 of gzip, because 9 takes three times as long for half a per cent; xz on one thread, whose bytes do not depend on the machine.
 * @param {Buffer} tar @param {import("./bundle/contents.mjs").Compression} compression
 */
function compress(tar, compression) {
  if (compression === "gz") return gzipSync(tar, { level: 6 });
  const { status, stdout } = spawnSync("xz", ["-6", "-T1", "-c"], { input: tar, maxBuffer: 2 ** 30 });
  if (status !== 0)
    throw new Stop("--xz needs the program xz on PATH; without --xz the archive is a .tar.gz");
  return stdout;
}

/** @param {number} bytes */
const megabytes = (bytes) => `${(bytes / 1e6).toFixed(1)} MB`;

/** Unpacks the archive and runs its self-test, whose output is shown if it fails. @param {string} archive */
function verify(archive) {
  const scratch = mkdtempSync(join(tmpdir(), "tilewright-bundle-"));
  try {
    const unpacked = spawnSync("tar", ["xf", archive, "-C", scratch], { encoding: "utf8" });
    if (unpacked.status !== 0) throw new Stop(`tar does not unpack the archive: ${unpacked.stderr}`);
    const { status, stdout, stderr } = spawnSync(join(scratch, FOLDER, "self-test"), [], {
      cwd: "/",
      encoding: "utf8",
    });
    if (status !== 0) throw new Stop(`the bundle fails its self-test:\n${stdout}${stderr}`);
    progress(`self-test of the unpacked archive: ${stdout.trim().split("\n").at(-1)}`);
  } finally {
    rmSync(scratch, { recursive: true, force: true });
  }
}

runMain(() => {
  const [flag, ...more] = process.argv.slice(2);
  if ((flag !== undefined && flag !== "--xz") || more.length > 0)
    throw new Stop("usage: npm run bundle [-- --xz]", 2);
  const compression = flag === "--xz" ? "xz" : "gz";
  install("npm run bundle");
  const reason = whyNot();
  if (reason !== null) throw new Stop(reason);
  progress("bundling the code");
  const files = contents(compression);
  progress(`adding Node and compressing (about ${compression === "xz" ? 50 : 6} s)`);
  const node = strippedNode();
  files.push({ path: "bin/node", data: node.data, executable: true });
  const tar = tarOf(files.map((file) => ({ ...file, path: `${FOLDER}/${file.path}` })));
  const archive = compress(tar, compression);

  const folder = join(root, "out");
  const place = join(folder, archiveName(compression));
  const temporary = join(folder, `.${archiveName(compression)}.${process.pid}.tmp`);
  if (!node.stripped)
    progress("warning: `strip` is not on PATH (it comes with binutils): Node keeps its symbols, 4 MB more");
  const most = MOST_BYTES[compression];
  if (archive.byteLength > most && node.stripped)
    throw new Stop(`the archive has ${megabytes(archive.byteLength)}; ${megabytes(most)} is the most`);
  mkdirSync(folder, { recursive: true });
  try {
    writeFileSync(temporary, archive);
    verify(temporary);
    renameSync(temporary, place);
  } finally {
    rmSync(temporary, { force: true });
  }
  console.log(
    `${relative(process.cwd(), place)}  ${megabytes(archive.byteLength)}, unpacked ${megabytes(tar.byteLength)}`,
  );
  return 0;
});
