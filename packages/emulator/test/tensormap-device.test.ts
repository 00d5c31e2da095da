/** Tensor maps that the kernel makes: out of zeros by tensormap.replace, as Triton and CUTLASS do, and by plain stores. */
import type { TensorMapSpec } from "@tilewright/core";
import { describe, expect, test } from "vitest";
import { clean, machine, orders, value } from "./support.ts";

const columns = 64;
const rows = 8;

/** One warp; 128 bytes for a map at `sm`, the box at `sm + 1024` and its barrier at `sm + 128`. */
const text = (body: string): string => `.version 8.6
.target sm_90a
.address_size 64
.extern .shared .align 1024 .b8 sm[];
.visible .entry k(.param .align 64 .b8 given[128], .param .u64 in, .param .u64 made, .param .u64 out)
{
.reg .pred %p<4>; .reg .b32 %r<16>; .reg .b32 %t, %sm, %bar, %box; .reg .b64 %given, %in, %made, %out, %d<8>;
mov.b64 %given, given; cvta.param.u64 %given, %given;
ld.param.u64 %in, [in]; ld.param.u64 %made, [made]; ld.param.u64 %out, [out];
mov.u32 %t, %tid.x; mov.b32 %sm, sm; add.s32 %bar, %sm, 128; add.s32 %box, %sm, 1024;
setp.eq.u32 %p0, %t, 0; mov.b32 %r0, 0;
@%p0 mbarrier.init.shared::cta.b64 [%bar], 1; @%p0 fence.mbarrier_init.release.cluster; bar.warp.sync -1;
${body}
@%p0 mbarrier.arrive.expect_tx.shared::cta.b64 _, [%bar], ${columns * rows * 2};
@%p0 cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%box], [%made, {%r0, %r0}], [%bar];
W: mbarrier.try_wait.parity.shared::cta.b64 %p2, [%bar], 0; @!%p2 bra W;
shl.b32 %r1, %t, 5; add.s32 %r2, %box, %r1; cvt.u64.u32 %d1, %r1; add.s64 %d1, %d1, %out;
ld.shared.v4.b32 {%r4, %r5, %r6, %r7}, [%r2]; st.global.v4.b32 [%d1], {%r4, %r5, %r6, %r7};
ld.shared.v4.b32 {%r4, %r5, %r6, %r7}, [%r2+16]; st.global.v4.b32 [%d1+16], {%r4, %r5, %r6, %r7};
ret;
}
`;

const fields = [
  "global_address.shared::cta.b1024.b64 [%sm], %in",
  "rank.shared::cta.b1024.b32 [%sm], 1",
  `box_dim.shared::cta.b1024.b32 [%sm], 0, ${columns}`,
  `box_dim.shared::cta.b1024.b32 [%sm], 1, ${rows}`,
  `global_dim.shared::cta.b1024.b32 [%sm], 0, ${columns}`,
  `global_dim.shared::cta.b1024.b32 [%sm], 1, ${rows}`,
  "global_stride.shared::cta.b1024.b64 [%sm], 0, %d2",
  "element_stride.shared::cta.b1024.b32 [%sm], 0, 1",
  "element_stride.shared::cta.b1024.b32 [%sm], 1, 1",
  "elemtype.shared::cta.b1024.b32 [%sm], 1",
  "interleave_layout.shared::cta.b1024.b32 [%sm], 0",
  "swizzle_mode.shared::cta.b1024.b32 [%sm], 0",
  "fill_mode.shared::cta.b1024.b32 [%sm], 0",
];
const zeros = "shl.b32 %r8, %t, 2; add.u32 %r8, %r8, %sm; st.shared.b32 [%r8], %r0; bar.warp.sync -1;";
const replaced = `mov.b64 %d2, ${columns * 2}; ${fields.map((field) => `@%p0 tensormap.replace.tile.${field};`).join("\n")} bar.warp.sync -1;`;
const published =
  "tensormap.cp_fenceproxy.global.shared::cta.tensormap::generic.release.gpu.sync.aligned [%made], [%sm], 128;";
const acquired = "fence.proxy.tensormap::generic.acquire.gpu [%made], 128;";
const copied = `mov.b64 %d3, %given; shl.b32 %r8, %t, 2; cvt.u64.u32 %d4, %r8; add.u64 %d3, %d3, %d4; add.u64 %d4, %made, %d4;
ld.b32 %r9, [%d3]; st.global.b32 [%d4], %r9; bar.warp.sync -1;`;
const released = "fence.proxy.tensormap::generic.release.gpu;";

function launch(body: string, order: (typeof orders)[number], before: "blank" | "map") {
  const device = machine(text(body));
  const data = Uint16Array.from({ length: rows * columns }, (_, k) => k + 1);
  const input = device.put(data);
  const spec: TensorMapSpec = {
    ...{ dtype: "u16", address: input, dims: [columns, rows], strides: [columns * 2], box: [columns, rows] },
    ...{ elementStrides: [1, 1], interleave: "none", swizzle: "none", l2: "none", fill: "zero" },
  };
  const given = value(device.emulator.encodeTensorMap(spec));
  const other = value(device.emulator.encodeTensorMap({ ...spec, box: [columns, 4] }));
  const [made, output] = [
    before === "map" ? device.put(other) : device.blank(128),
    device.blank(rows * columns * 2),
  ];
  const report = device.launch("k", 1, 32, [given, input, made, output], { dynamicSmem: 4096, order });
  return { report, right: () => expect(device.u16(output, rows * columns)).toEqual(data) };
}

describe.each(orders)("in order %s", (order) => {
  test("a map made of zeros, published to memory that nobody has written", () => {
    const { report, right } = launch(`${zeros}${replaced}${published}${acquired}`, order, "blank");
    clean(report);
    right();
  });

  test("a map written by plain stores, released and acquired, over one that was used", () => {
    const prefetch = "@%p0 prefetch.tensormap [%made];";
    const { report, right } = launch(`${prefetch}${copied}${released}${acquired}`, order, "map");
    clean(report);
    right();
  });
});

test("what is still wrong: other bytes, and no acquire", () => {
  const rules = (body: string, before: "blank" | "map" = "blank") =>
    launch(body, "eager", before).report.findings.map(({ rule }) => rule);
  expect(rules(`${zeros}@%p0 st.shared.b32 [%sm+16], 5; ${replaced}${published}${acquired}`)).toContain(
    "H050",
  );
  expect(rules(`${zeros}${replaced}${published}`)).toEqual(["H052"]);
  expect(rules(`@%p0 prefetch.tensormap [%made];${copied}${acquired}`, "map")).toEqual(["H052"]);
});

test("a map that stores change under a copy, unless the copy has been waited for", () => {
  const load = `@%p0 mbarrier.init.shared::cta.b64 [%bar+8], 1; @%p0 fence.mbarrier_init.release.cluster; bar.warp.sync -1;
add.s32 %r10, %bar, 8; add.s32 %r11, %sm, 2048;
@%p0 mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r10], ${columns * 4 * 2};
@%p0 cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%r11], [%made, {%r0, %r0}], [%r10];`;
  const wait = "V: mbarrier.try_wait.parity.shared::cta.b64 %p1, [%r10], 0; @!%p1 bra V;";
  const found = (order: (typeof orders)[number], first: string, last: string) =>
    launch(`${load}${first}${copied}${released}${acquired}${last}`, order, "map").report.findings.map(
      ({ rule, message }) => `${rule} ${/changed by stores/.test(message)}`,
    );
  for (const order of orders) {
    expect(found(order, wait, "")).toEqual([]);
    expect(found(order, "", wait)).toEqual(["H091 true"]);
  }
});
