// npm run bundle: one archive that runs the command line on a Linux x64 GPU machine without Node and without internet.
// It is unpacked and put through its own self-test before it takes its place in out/.

import { spawnSync } from "node:child_process";
import { mkdirSync, mkdtempSync, renameSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join, relative } from "node:path";
import { gzipSync } from "node:zlib";
import { ARCHIVE, contents, FOLDER, strippedNode, whyNot } from "./bundle/contents.mjs";
import { tarOf } from "./bundle/tar.mjs";
import { install, progress, root, runMain, Stop } from "./lib/workspace.mjs";

/**
 * Most bytes of the archive: it is carried to machines over slow links and size limits. gzip, because tar unpacks it
 * everywhere and xz is not on every machine; level 6, because 9 takes three times as long for half a per cent.
 * Measured with Node 24.21: 42.7 MB, of which Node is 40.3 (with xz 27); with its symbols Node alone is 44.6.
 */
const MOST_BYTES = 45_000_000;

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
  install("npm run bundle");
  const reason = whyNot();
  if (reason !== null) throw new Stop(reason);
  progress("bundling the code");
  const files = contents();
  progress("adding Node and compressing (about 6 s)");
  const node = strippedNode();
  files.push({ path: "bin/node", data: node.data, executable: true });
  const tar = tarOf(files.map((file) => ({ ...file, path: `${FOLDER}/${file.path}` })));
  const archive = gzipSync(tar, { level: 6 });

  const folder = join(root, "out");
  const place = join(folder, ARCHIVE);
  const temporary = join(folder, `.${ARCHIVE}.${process.pid}.tmp`);
  if (!node.stripped)
    progress("warning: `strip` is not on PATH (it comes with binutils): Node keeps its symbols, 4 MB more");
  if (archive.byteLength > MOST_BYTES && node.stripped)
    throw new Stop(`the archive has ${megabytes(archive.byteLength)}; ${megabytes(MOST_BYTES)} is the most`);
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
