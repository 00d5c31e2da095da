/**
 * A server that computes D = gelu(A.B + bias) in fp16 with a generated kernel library: rows of A in, rows of D out, as raw f16.
 *
 *   tilewright compile --library out --kernels examples/library.json
 *   node examples/node/server.mjs out 8080
 *   curl --data-binary @rows.f16 http://localhost:8080/linear_gelu -o d.f16
 *
 * On a GPU if there is one, else on the emulator. B is all 1/64 and the bias 0.5: put your own weights there.
 */
import { createServer } from "node:http";
import { join, resolve } from "node:path";
import { pathToFileURL } from "node:url";
import { encodeArray } from "@tilewright/core";
import { openDevice } from "@tilewright/runtime";

const [N, K, BYTES] = [256, 192, 2];

/** The value, or an exception with every reason. */
const must = (result) => {
  if (!result.ok) throw new Error(result.error.map(({ message }) => message).join("\n"));
  return result.value;
};

const [folder = "out", port = "8080"] = process.argv.slice(2);
const { open, linear_gelu } = await import(pathToFileURL(join(resolve(folder), "demo.js")).href);
const device = must(await openDevice({ kind: "auto", arch: "sm_80" }));
const library = must(open(device));

const upload = (bytes) => {
  const buffer = must(device.alloc(bytes.byteLength));
  must(buffer.write(bytes));
  return buffer;
};
const f16 = (values) => new Uint8Array(encodeArray("f16", values).buffer);
const b = upload(f16(new Float32Array(N * K).fill(1 / 64)));
const epilogue0 = upload(f16(new Float32Array(N).fill(0.5)));

/** Rows of D for rows of A; throws what the library says of sizes that it has no kernel for. */
function compute(rows) {
  const m = rows.byteLength / (K * BYTES);
  if (!Number.isInteger(m)) throw new Error(`${rows.byteLength} bytes are no rows of ${K} f16`);
  const a = upload(rows);
  const d = must(device.alloc(m * N * BYTES));
  try {
    must(linear_gelu(library, { m, n: N, k: K }, { a, b, d, epilogue0 }));
    return must(d.read());
  } finally {
    a.free();
    d.free();
  }
}

const server = createServer(async (request, response) => {
  const chunks = [];
  for await (const chunk of request) chunks.push(chunk);
  try {
    const bytes = compute(new Uint8Array(Buffer.concat(chunks)));
    response.writeHead(200, { "content-type": "application/octet-stream" }).end(bytes);
  } catch (error) {
    response.writeHead(400, { "content-type": "text/plain" }).end(`${error.message}\n`);
  }
});
server.listen(Number(port), () => console.log(`${device.name} on port ${server.address().port}`));
process.on("SIGTERM", () => server.close(() => library.close()));
