/** Compiled by the type test, never run: what the builder refuses at compile time. */
import {
  addr,
  f32imm,
  imm,
  moduleBuilder,
  not,
  pair,
  param,
  sink,
  special,
  sym,
  tensorAddr,
  vec,
} from "../src/index.ts";

export function compileTimeChecks(): void {
  const k = moduleBuilder({ version: [8, 0], target: "sm_90a" }).entry("k");
  const [f0, f1, f2, f3] = [k.reg("f32"), k.reg("f32"), k.reg("f32"), k.reg("f32")];
  const r = k.reg("b32");
  const u = k.reg("u32");
  const rd = k.reg("u64");
  const bd = k.reg("b64");
  const h = k.reg("b16");
  const p = k.reg("pred");
  const q = k.reg("pred");

  k.emit("ld.param.u64", rd, param("p_a"));
  k.emit("mov.u32", u, special("%tid.x"));
  k.emit("mov.u32", r, sym("smem"));
  k.emit("ld.global.v4.f32", vec(f0, f1, f2, f3), addr(rd, 16));
  k.emit("ld.shared.f32", f0, addr(u));
  k.emit("fma.rn.f32", f0, f1, f2, f3);
  k.emit("fma.rn.ftz.f32", f0, f1, f32imm(2), f3);
  k.emit("mul.wide.u32", rd, u, imm(4));
  k.emit("mad.wide.u32", rd, u, imm(4), rd);
  k.emit("setp.lt.u32", p, u, imm(8));
  k.emit("setp.lt.and.u32", p, u, imm(8), not(q));
  k.emitIf(not(p), "bra", k.label("x"));
  k.emit("cvt.rn.bf16x2.f32", r, f0, f1);
  k.emit("cvt.u32.u64", u, rd);
  k.emit("shfl.sync.idx.b32", pair(r, p), r, imm(0), imm(31), imm(-1));
  k.emit("mbarrier.arrive.expect_tx.shared::cta.b64", sink, addr(r), imm(128));
  k.emit("mbarrier.try_wait.parity.shared::cta.b64", p, addr(r), u);
  k.emit("cp.async.cg.shared.global", addr(r), addr(rd), imm(16));
  k.emit("cp.async.cg.shared.global.L2::cache_hint", addr(r), addr(rd), imm(16), bd);
  k.emit(
    "cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster",
    addr(r),
    tensorAddr(rd, u, imm(0)),
    addr(r),
    h,
  );
  k.emit(
    "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32",
    vec(f0, f1, f2, f3),
    vec(r, r, r, r),
    vec(r, r),
    vec(f0, f1, f2, f3),
  );
  k.emit("st.global.v2.f32", addr(rd), vec(f0, f1));
  k.emit("bar.sync", imm(0));
  k.emit("ret");
  const dynamic: string = "add.u32";
  k.emit(dynamic, u, u, u);
  const width: "v2" | "v4" = "v4";
  k.emit(`ld.global.${width}.f32`, vec(f0, f1, f2, f3), addr(rd));

  // @ts-expect-error an f32 register where an address is due
  k.emit("ld.global.f32", f0, f1);
  // @ts-expect-error an f32 register cannot hold an address
  addr(f0);
  // @ts-expect-error f32 register as a u64 operand
  k.emit("add.u64", rd, rd, f0);
  // @ts-expect-error f32 register where u32 is due
  k.emit("add.u32", u, u, f0);
  // @ts-expect-error u32 is not a float register
  k.emit("fma.rn.f32", f0, f1, u, f3);
  // @ts-expect-error an integer is no f32 constant
  k.emit("add.f32", f0, f1, imm(1));
  // @ts-expect-error one operand too few
  k.emit("fma.rn.f32", f0, f1, f2);
  // @ts-expect-error a scalar where a vector is due
  k.emit("ld.global.v4.f32", f0, addr(rd));
  // @ts-expect-error the product has 64 bits
  k.emit("mul.wide.u32", u, u, u);
  // @ts-expect-error unknown instruction
  k.emit("fmaa.rn.f32", f0, f1, f2, f3);
  // @ts-expect-error no cache policy without its modifier
  k.emit("cp.async.cg.shared.global", addr(r), addr(rd), imm(16), imm(16), bd);
  // @ts-expect-error the guard must be a predicate
  k.emitIf(u, "ret");
  // @ts-expect-error the target of a result is never a constant
  k.emit("mov.u32", imm(1), u);
  // @ts-expect-error a tensor map's address has 64 bits
  tensorAddr(r, u);
}
