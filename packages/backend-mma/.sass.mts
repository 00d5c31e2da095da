import { execFileSync } from "node:child_process";
import { readFileSync, writeFileSync } from "node:fs";
import { build, firstOf, problemOf, scheduleOf, targetOf } from "@tilewright/conformance";
import { mma } from "./src/backend.ts";

const [, , arch, req, text] = process.argv;
const target = targetOf(arch ?? "");
const problem = problemOf(JSON.parse(req ?? ""));
const schedule = text ? scheduleOf(mma, text) : firstOf(mma, problem, target);
const { kernel } = build(mma, problem, target, schedule);
writeFileSync("/tmp/mf/s.ptx", kernel.ptx);
execFileSync("ptxas", [`-arch=sm_90`, "-o", "/tmp/mf/s.cubin", "/tmp/mf/s.ptx"]);
const cubin = readFileSync("/tmp/mf/s.cubin");
const sections = Number(cubin.readBigUInt64LE(40));
const [size, count, names] = [58, 60, 62].map((at) => cubin.readUInt16LE(at));
const field = (s, at) => Number(cubin.readBigUInt64LE(sections + s * size + at));
let t;
for (let i = 0; i < count; i++) {
  const name = field(names, 24) + cubin.readUInt32LE(sections + i * size);
  if (cubin.toString("latin1", name, name + 6) === ".text.")
    t = cubin.subarray(field(i, 24), field(i, 24) + field(i, 32));
}
const ops = Array.from({ length: t.length / 16 }, (_, i) => Number(t.readBigUInt64LE(i * 16) & 0xfffn));
const tally = {};
for (const o of ops) tally[o.toString(16)] = (tally[o.toString(16)] ?? 0) + 1;
console.log(
  Object.entries(tally)
    .sort((a, b) => b[1] - a[1])
    .slice(0, 40)
    .map(([k, v]) => `${k}:${v}`)
    .join(" "),
);
const tg = (i) => {
  const low = t.readBigUInt64LE(i * 16),
    high = t.readBigUInt64LE(i * 16 + 8);
  const w = low | (high << 64n);
  const off = Number(BigInt.asIntN(48, w >> 34n)) * 256 + Number((low >> 16n) & 0xffn);
  return i + 1 + (off * 4) / 16;
};
const loops = ops.flatMap((o, i) => (o === 0x947 && tg(i) <= i ? [[tg(i), i]] : []));
for (const [f, e] of loops) {
  const part = ops.slice(f, e + 1);
  const hm = part.filter((o) => o === 0x23c).length;
  console.log(
    "loop",
    f,
    e,
    "hmma",
    hm,
    "ldsm",
    part.filter((o) => o === 0x83b).length,
    "ldgsts",
    part.filter((o) => o === 0xfae).length,
  );
  if (hm > 60)
    console.log(
      part.map((o) => ({ 572: "H", 2107: "L", 4014: "g", 2845: "B", 567: "I" })[o] ?? ".").join(""),
    );
}
