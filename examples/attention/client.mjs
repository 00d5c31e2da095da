/**
 * Attention from JavaScript: a right call and a wrong one, beside numbers computed in double precision.
 *
 *   tilewright compile --library out --kernels examples/attention/library.json
 *   python examples/attention/data.py data
 *   node examples/attention/client.mjs out data
 */
import { readFileSync } from "node:fs";
import { join, resolve } from "node:path";
import { pathToFileURL } from "node:url";
import { decodeArray, storageFromBytes } from "@tilewright/core";
import { openDevice } from "@tilewright/runtime";

const [BATCH, HEADS, SHARED, QUERIES, KEYS, DIM] = [2, 4, 2, 64, 128, 64];

/** The value, or an exception with every reason. */
const must = (result) => {
  if (!result.ok) throw new Error(result.error.map(({ message }) => message).join("\n"));
  return result.value;
};

const [folder = "out", data = "data"] = process.argv.slice(2);
const { open, flash } = await import(pathToFileURL(join(resolve(folder), "heads.js")).href);
const device = must(await openDevice({ kind: "auto", arch: "sm_80" }));
const library = must(open(device));

const read = (name) => readFileSync(join(data, name));
const upload = (bytes) => {
  const buffer = must(device.alloc(bytes.byteLength));
  must(buffer.write(bytes));
  return buffer;
};
const count = BATCH * HEADS * QUERIES * DIM;
const want = new Float64Array(new Uint8Array(read("out.f64")).buffer);
const buffers = { q: upload(read("q.f16")), k: upload(read("k.f16")), v: upload(read("v.f16")) };
const out = upload(new Uint8Array(2 * count).fill(0xff));
const tensors = {
  q: { dtype: "f16", shape: [BATCH, HEADS, QUERIES, DIM] },
  k: { dtype: "f16", shape: [BATCH, SHARED, KEYS, DIM] },
};
// Twice: the second launch is a known one.
for (let i = 0; i < 2; i++) must(flash(library, { tensors }, { ...buffers, out }));
const made = decodeArray("f16", storageFromBytes("f16", must(out.read()), count));
const error = Array.from(made, (value, i) => Math.abs(value - want[i])).reduce((worst, off) =>
  off <= worst ? worst : off,
);
const wrong = { q: { dtype: "f16", shape: [BATCH, HEADS, QUERIES / 2, DIM] } };
const refused = flash(library, { tensors: wrong }, { ...buffers, out });
if (!refused.ok) console.log(`refused: ${refused.error[0].message}`);
console.log(`${device.name}: ${count} outputs, largest error ${error.toPrecision(2)}`);
process.exitCode = error < 0.004 && !refused.ok ? 0 : 1;
