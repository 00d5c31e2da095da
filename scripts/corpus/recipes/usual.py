"""The usual kernels, written here in Triton: what the public libraries at hand leave out (dtypes, TMA, split-k, persistence, sorts)."""
import torch
import triton
import triton.language as tl
from triton.tools.tensor_descriptor import TensorDescriptor


@triton.jit
def matmul(a, b, c, M, N, K, sam, sak, sbk, sbn, scm, scn, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, ACC: tl.constexpr, PREC: tl.constexpr, SPLIT: tl.constexpr):
    m = tl.program_id(0) * BM + tl.arange(0, BM)
    n = tl.program_id(1) * BN + tl.arange(0, BN)
    z = tl.program_id(2)
    acc = tl.zeros((BM, BN), dtype=ACC)
    for k0 in range(z * BK, K, BK * SPLIT):
        k = k0 + tl.arange(0, BK)
        x = tl.load(a + m[:, None] * sam + k[None, :] * sak, mask=(m[:, None] < M) & (k[None, :] < K), other=0.0)
        y = tl.load(b + k[:, None] * sbk + n[None, :] * sbn, mask=(k[:, None] < K) & (n[None, :] < N), other=0.0)
        acc = tl.dot(x, y, acc, input_precision=PREC, out_dtype=ACC)
    p = c + m[:, None] * scm + n[None, :] * scn
    ok = (m[:, None] < M) & (n[None, :] < N)
    if SPLIT > 1:
        tl.atomic_add(p, acc, mask=ok)
    else:
        tl.store(p, acc.to(c.dtype.element_ty), mask=ok)


@triton.jit
def matmul_persistent(a, b, c, M, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, SMS: tl.constexpr):
    nn = tl.cdiv(N, BN)
    for tile in tl.range(tl.program_id(0), tl.cdiv(M, BM) * nn, SMS, flatten=True):
        m = tile // nn * BM + tl.arange(0, BM)
        n = tile % nn * BN + tl.arange(0, BN)
        acc = tl.zeros((BM, BN), dtype=tl.float32)
        for k0 in range(0, K, BK):
            k = k0 + tl.arange(0, BK)
            acc = tl.dot(tl.load(a + m[:, None] * K + k[None, :]), tl.load(b + k[:, None] * N + n[None, :]), acc)
        tl.store(c + m[:, None] * N + n[None, :], acc.to(c.dtype.element_ty))


@triton.jit
def matmul_tma(a, b, c, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, TB: tl.constexpr):
    m, n = tl.program_id(0) * BM, tl.program_id(1) * BN
    acc = tl.zeros((BM, BN), dtype=tl.float32)
    for k in range(0, K, BK):
        x = a.load([m, k])
        if TB:
            acc = tl.dot(x, b.load([n, k]).T, acc)
        else:
            acc = tl.dot(x, b.load([k, n]), acc)
    c.store([m, n], acc.to(c.dtype))


@triton.jit
def matmul_tma_persistent(a, b, c, M, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, SMS: tl.constexpr, WS: tl.constexpr):
    nn = tl.cdiv(N, BN)
    for tile in tl.range(tl.program_id(0), tl.cdiv(M, BM) * nn, SMS, flatten=True, warp_specialize=WS):
        m, n = tile // nn * BM, tile % nn * BN
        acc = tl.zeros((BM, BN), dtype=tl.float32)
        for k in range(0, K, BK):
            acc = tl.dot(a.load([m, k]), b.load([n, k]).T, acc)
        c.store([m, n], acc.to(c.dtype))


@triton.jit
def matmul_tma_device(a, b, c, M, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    da = tl.make_tensor_descriptor(a, [M, K], [K, 1], [BM, BK])
    db = tl.make_tensor_descriptor(b, [N, K], [K, 1], [BN, BK])
    dc = tl.make_tensor_descriptor(c, [M, N], [N, 1], [BM, BN])
    m, n = tl.program_id(0) * BM, tl.program_id(1) * BN
    acc = tl.zeros((BM, BN), dtype=tl.float32)
    for k in range(0, K, BK):
        acc = tl.dot(da.load([m, k]), db.load([n, k]).T, acc)
    dc.store([m, n], acc.to(c.dtype.element_ty))


@triton.jit
def matmul_int8(a, b, c, K, N, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    m = tl.program_id(0) * BM + tl.arange(0, BM)
    n = tl.program_id(1) * BN + tl.arange(0, BN)
    acc = tl.zeros((BM, BN), dtype=tl.int32)
    for k0 in range(0, K, BK):
        k = k0 + tl.arange(0, BK)
        acc = tl.dot(tl.load(a + m[:, None] * K + k[None, :]), tl.load(b + n[None, :] * K + k[:, None]), acc, out_dtype=tl.int32)
    tl.store(c + m[:, None] * N + n[None, :], acc)


@triton.jit
def attention(q, k, v, o, lse, scale, T, D: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr, CAUSAL: tl.constexpr):
    h = tl.program_id(1)
    m = tl.program_id(0) * BM + tl.arange(0, BM)
    d = tl.arange(0, D)
    base = h * T * D
    qs = tl.load(q + base + m[:, None] * D + d[None, :])
    top = tl.full((BM,), -float("inf"), tl.float32)
    total = tl.zeros((BM,), tl.float32)
    acc = tl.zeros((BM, D), tl.float32)
    end = (tl.program_id(0) + 1) * BM if CAUSAL else T
    for start in range(0, end, BN):
        n = start + tl.arange(0, BN)
        s = tl.dot(qs, tl.trans(tl.load(k + base + n[:, None] * D + d[None, :]))) * (scale * 1.44269504)
        if CAUSAL:
            s = tl.where(m[:, None] >= n[None, :], s, -float("inf"))
        new = tl.maximum(top, tl.max(s, 1))
        p = tl.exp2(s - new[:, None])
        alpha = tl.exp2(top - new)
        total = total * alpha + tl.sum(p, 1)
        acc = tl.dot(p.to(v.dtype.element_ty), tl.load(v + base + n[:, None] * D + d[None, :]), acc * alpha[:, None])
        top = new
    tl.store(o + base + m[:, None] * D + d[None, :], (acc / total[:, None]).to(o.dtype.element_ty))
    tl.store(lse + h * T + m, top + tl.log2(total))


@triton.jit
def attention_dkdv(q, k, v, do, lse, delta, dk, dv, scale, T, D: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr):
    n = tl.program_id(0) * BN + tl.arange(0, BN)
    d = tl.arange(0, D)
    base = tl.program_id(1) * T * D
    ks = tl.load(k + base + n[:, None] * D + d[None, :])
    vs = tl.load(v + base + n[:, None] * D + d[None, :])
    gk = tl.zeros((BN, D), tl.float32)
    gv = tl.zeros((BN, D), tl.float32)
    for start in range(0, T, BM):
        m = start + tl.arange(0, BM)
        qs = tl.load(q + base + m[:, None] * D + d[None, :])
        gs = tl.load(do + base + m[:, None] * D + d[None, :])
        p = tl.exp2(tl.dot(qs, tl.trans(ks)) * (scale * 1.44269504) - tl.load(lse + tl.program_id(1) * T + m)[:, None])
        gv = tl.dot(tl.trans(p.to(gs.dtype)), gs, gv)
        ds = p * (tl.dot(gs, tl.trans(vs)) - tl.load(delta + tl.program_id(1) * T + m)[:, None]) * scale
        gk = tl.dot(tl.trans(ds.to(qs.dtype)), qs, gk)
    tl.store(dk + base + n[:, None] * D + d[None, :], gk.to(dk.dtype.element_ty))
    tl.store(dv + base + n[:, None] * D + d[None, :], gv.to(dv.dtype.element_ty))


@triton.jit
def sort_rows(x, o, N: tl.constexpr, DOWN: tl.constexpr):
    i = tl.program_id(0) * N + tl.arange(0, N)
    tl.store(o + i, tl.sort(tl.load(x + i), descending=DOWN))


@triton.jit
def topk_rows(x, o, N: tl.constexpr, K: tl.constexpr):
    tl.store(o + tl.program_id(0) * K + tl.arange(0, K), tl.topk(tl.load(x + tl.program_id(0) * N + tl.arange(0, N)), K))


@triton.jit
def histogram(x, o, n, N: tl.constexpr, BINS: tl.constexpr):
    i = tl.program_id(0) * N + tl.arange(0, N)
    h = tl.histogram(tl.load(x + i, mask=i < n, other=0), BINS)
    tl.atomic_add(o + tl.arange(0, BINS), h)


@triton.jit
def scan_rows(x, o, N: tl.constexpr, KIND: tl.constexpr, REVERSE: tl.constexpr):
    i = tl.program_id(0) * N + tl.arange(0, N)
    v = tl.load(x + i)
    if KIND == 0:
        v = tl.cumsum(v, 0, reverse=REVERSE)
    else:
        v = tl.cumprod(v, 0, reverse=REVERSE)
    tl.store(o + i, v)


@triton.jit
def first_order(a, b, c, d):
    return a * c, b * c + d


@triton.jit
def linear_recurrence(a, b, o, N: tl.constexpr):
    i = tl.arange(0, N)
    _, h = tl.associative_scan((tl.load(a + i), tl.load(b + i)), 0, first_order)
    tl.store(o + i, h)


@triton.jit
def transpose(x, o, M, N, B: tl.constexpr):
    m = tl.program_id(0) * B + tl.arange(0, B)
    n = tl.program_id(1) * B + tl.arange(0, B)
    v = tl.load(x + m[:, None] * N + n[None, :], mask=(m[:, None] < M) & (n[None, :] < N))
    tl.store(o + n[:, None] * M + m[None, :], tl.trans(v), mask=(n[:, None] < N) & (m[None, :] < M))


@triton.jit
def quantise(x, o, s, N: tl.constexpr):
    i = tl.program_id(0) * N + tl.arange(0, N)
    v = tl.load(x + i).to(tl.float32)
    scale = tl.max(tl.abs(v), 0) / 127.0
    tl.store(s + tl.program_id(0), scale)
    tl.store(o + i, tl.extra.cuda.libdevice.rint(v / scale).to(tl.int8))


@triton.jit
def quantise_fp8(x, o, s, N: tl.constexpr):
    i = tl.program_id(0) * N + tl.arange(0, N)
    v = tl.load(x + i).to(tl.float32)
    scale = tl.max(tl.abs(v), 0) / 448.0
    tl.store(s + tl.program_id(0), scale)
    tl.store(o + i, (v / scale).to(o.dtype.element_ty))


@triton.jit
def dequantise(x, s, o, N: tl.constexpr):
    i = tl.program_id(0) * N + tl.arange(0, N)
    tl.store(o + i, (tl.load(x + i).to(tl.float32) * tl.load(s + tl.program_id(0))).to(o.dtype.element_ty))


@triton.jit
def dropout(x, o, n, p, seed, B: tl.constexpr):
    i = tl.program_id(0) * B + tl.arange(0, B)
    keep = tl.rand(seed, i) > p
    tl.store(o + i, tl.where(keep, tl.load(x + i, mask=i < n) / (1 - p), 0.0), mask=i < n)


@triton.jit
def normals(o, seed, B: tl.constexpr):
    i = tl.program_id(0) * B + tl.arange(0, B)
    tl.store(o + i, tl.randn(seed, i))


@triton.jit
def special(x, o, n, WHICH: tl.constexpr, B: tl.constexpr):
    i = tl.program_id(0) * B + tl.arange(0, B)
    v = tl.load(x + i, mask=i < n)
    if WHICH == 0:
        v = tl.extra.cuda.libdevice.lgamma(v)
    elif WHICH == 1:
        v = tl.extra.cuda.libdevice.tan(v)
    elif WHICH == 2:
        v = tl.extra.cuda.libdevice.pow(tl.abs(v), 1.7)
    elif WHICH == 3:
        v = tl.extra.cuda.libdevice.erfinv(v * 0.2)
    elif WHICH == 4:
        v = tl.extra.cuda.libdevice.j0(v * 5)
    elif WHICH == 5:
        v = tl.extra.cuda.libdevice.log1p(tl.abs(v))
    elif WHICH == 6:
        v = tl.extra.cuda.libdevice.atan2(v, v * v - 0.5)
    else:
        v = tl.extra.cuda.libdevice.cbrt(v)
    tl.store(o + i, v, mask=i < n)


@triton.jit
def spin_sum(x, o, lock, count, N: tl.constexpr):
    v = tl.load(x + tl.program_id(0) * N + tl.arange(0, N))
    while tl.atomic_cas(lock, 0, 1) == 1:
        pass
    old = tl.load(o + tl.arange(0, N))
    tl.store(o + tl.arange(0, N), old + v)
    tl.debug_barrier()
    tl.atomic_xchg(lock, 0)
    tl.atomic_add(count, 1)


@triton.jit
def atomics(x, o, n, WHICH: tl.constexpr, B: tl.constexpr):
    i = tl.program_id(0) * B + tl.arange(0, B)
    v = tl.load(x + i, mask=i < n, other=0)
    p = o + i % 7
    if WHICH == 0:
        tl.atomic_add(p, v, mask=i < n)
    elif WHICH == 1:
        tl.atomic_max(p, v, mask=i < n)
    elif WHICH == 2:
        tl.atomic_min(p, v, mask=i < n)
    elif WHICH == 3:
        tl.atomic_or(p, v, mask=i < n)
    else:
        tl.atomic_xor(p, v, mask=i < n)


@triton.jit
def conv3x3(x, w, o, H, W, C: tl.constexpr, F: tl.constexpr, BP: tl.constexpr):
    p = tl.program_id(0) * BP + tl.arange(0, BP)
    y0, x0 = p // W, p % W
    c = tl.arange(0, C)
    f = tl.arange(0, F)
    acc = tl.zeros((BP, F), tl.float32)
    for tap in range(9):
        yy, xx = y0 + tap // 3 - 1, x0 + tap % 3 - 1
        ok = (yy >= 0) & (yy < H) & (xx >= 0) & (xx < W) & (p < H * W)
        patch = tl.load(x + (yy * W + xx)[:, None] * C + c[None, :], mask=ok[:, None], other=0.0)
        acc = tl.dot(patch, tl.load(w + tap * C * F + c[:, None] * F + f[None, :]), acc)
    tl.store(o + p[:, None] * F + f[None, :], acc.to(o.dtype.element_ty), mask=(p < H * W)[:, None])


@triton.jit
def gather_rows(x, at, o, N: tl.constexpr):
    row = tl.load(at + tl.program_id(0))
    i = tl.arange(0, N)
    tl.store(o + tl.program_id(0) * N + i, tl.load(x + row * N + i))


@triton.jit
def gather_in_block(x, at, o, N: tl.constexpr):
    i = tl.arange(0, N)
    tl.store(o + i, tl.gather(tl.load(x + i), tl.load(at + i), 0))


@triton.jit
def argmax_rows(x, o, top, N: tl.constexpr):
    v = tl.load(x + tl.program_id(0) * N + tl.arange(0, N))
    best, where = tl.max(v, 0, return_indices=True)
    tl.store(o + tl.program_id(0), where)
    tl.store(top + tl.program_id(0), best)


@triton.jit
def welford(m0, s0, n0, m1, s1, n1):
    n = n0 + n1
    d = m1 - m0
    r = n1 / n
    return m0 + d * r, s0 + s1 + d * d * n0 * r, n


@triton.jit
def variance_rows(x, mean, var, N: tl.constexpr):
    v = tl.load(x + tl.program_id(0) * N + tl.arange(0, N))
    m, s, n = tl.reduce((v, tl.zeros_like(v), tl.full((N,), 1.0, tl.float32)), 0, welford)
    tl.store(mean + tl.program_id(0), m)
    tl.store(var + tl.program_id(0), s / n)


@triton.jit
def checked(x, o, n, B: tl.constexpr):
    i = tl.program_id(0) * B + tl.arange(0, B)
    v = tl.load(x + i, mask=i < n, other=1)
    tl.device_assert(v > -100, "values are small", mask=i < n)
    tl.store(o + i, v + 1, mask=i < n)


@triton.jit
def printing(x, o, B: tl.constexpr):
    i = tl.arange(0, B)
    tl.device_print("x", tl.load(x + i))
    tl.store(o + i, tl.load(x + i) * 2)


DT = {"f16": torch.float16, "bf16": torch.bfloat16, "f32": torch.float32, "f64": torch.float64, "e4m3": torch.float8_e4m3fn, "e5m2": torch.float8_e5m2, "s8": torch.int8}
TL = {"f16": tl.float16, "f32": tl.float32, "f64": tl.float64, "s32": tl.int32}


def mm(M, N, K, dtype="f16", out="f16", acc="f32", prec="tf32", trans="nn", tiles=(64, 64, 32), split=1, warps=4, stages=3, ctas=1):
    a = torch.randn(M, K).to(DT[dtype])
    b = torch.randn(K, N).to(DT[dtype])
    if trans[0] == "t":
        a = torch.randn(K, M).to(DT[dtype]).t()
    if trans[1] == "t":
        b = torch.randn(N, K).to(DT[dtype]).t()
    c = torch.zeros(M, N, dtype=torch.float32 if split > 1 else DT[out])
    matmul[(triton.cdiv(M, tiles[0]), triton.cdiv(N, tiles[1]), split)](a, b, c, M, N, K, *a.stride(), *b.stride(), *c.stride(), *tiles, TL[acc], prec, split, num_warps=warps, num_stages=stages, num_ctas=ctas)


def tma(kernel, M, N, K, dtype="f16", tiles=(64, 64, 64), tb=True, **more):
    a = torch.randn(M, K).to(DT[dtype])
    b = torch.randn(N, K).to(DT[dtype]) if tb else torch.randn(K, N).to(DT[dtype])
    c = torch.zeros(M, N, dtype=torch.float16)
    bm, bn, bk = tiles
    da = TensorDescriptor.from_tensor(a, [bm, bk])
    db = TensorDescriptor.from_tensor(b, [bn, bk] if tb else [bk, bn])
    dc = TensorDescriptor.from_tensor(c, [bm, bn])
    if kernel is matmul_tma:
        kernel[(M // bm, N // bn)](da, db, dc, K, *tiles, tb, **more)
    else:
        ws = more.pop("ws", False)
        kernel[(2,)](da, db, dc, M, N, K, *tiles, 2, ws, **more)


def attend(dtype, causal, T=128, D=64, tiles=(64, 64), warps=4):
    q, k, v = (torch.randn(2, T, D).to(DT[dtype]) for _ in range(3))
    attention[(T // tiles[0], 2)](q, k, v, torch.zeros_like(q), torch.zeros(2, T), D**-0.5, T, D, *tiles, causal, num_warps=warps)


def attend_back(dtype):
    q, k, v, g = (torch.randn(2, 128, 64).to(DT[dtype]) for _ in range(4))
    s = (q.float() @ k.float().transpose(1, 2)) * 64**-0.5
    o = torch.softmax(s, -1) @ v.float()
    lse = torch.logsumexp(s, -1) * 1.44269504
    attention_dkdv[(2, 2)](q, k, v, g, lse, (o * g.float()).sum(-1), torch.zeros_like(q), torch.zeros_like(q), 64**-0.5, 128, 64, 64, 64)


def recipes():
    r = lambda *n: torch.randn(*n)
    z = lambda *n, dtype=torch.float32: torch.zeros(*n, dtype=dtype)
    ints = lambda high, *n: torch.randint(0, high, n, dtype=torch.int32)
    found = {
        "mm_f16": lambda: mm(128, 128, 128),
        "mm_f16_tn": lambda: mm(128, 128, 64, trans="tn"),
        "mm_f16_nt": lambda: mm(128, 128, 64, trans="nt"),
        "mm_f16_ragged": lambda: mm(97, 113, 75, tiles=(32, 32, 32)),
        "mm_f16_small_tile": lambda: mm(64, 64, 64, tiles=(16, 16, 16), warps=1),
        "mm_f16_acc16": lambda: mm(64, 64, 64, acc="f16", tiles=(32, 32, 32)),
        "mm_f16_8warps": lambda: mm(128, 256, 128, tiles=(128, 256, 64), warps=8),
        "mm_bf16": lambda: mm(128, 128, 128, dtype="bf16", out="bf16"),
        "mm_bf16_f32": lambda: mm(128, 64, 96, dtype="bf16", out="f32", tiles=(64, 64, 32)),
        "mm_tf32": lambda: mm(64, 64, 64, dtype="f32", out="f32"),
        "mm_tf32x3": lambda: mm(64, 64, 64, dtype="f32", out="f32", prec="tf32x3", tiles=(32, 32, 32)),
        "mm_ieee": lambda: mm(64, 64, 64, dtype="f32", out="f32", prec="ieee", tiles=(32, 32, 16)),
        "mm_f64": lambda: mm(32, 32, 32, dtype="f64", out="f64", acc="f64", tiles=(16, 16, 16), prec="ieee"),
        "mm_e4m3": lambda: mm(128, 128, 128, dtype="e4m3", tiles=(64, 64, 64), trans="nt"),
        "mm_e5m2": lambda: mm(128, 64, 128, dtype="e5m2", tiles=(64, 64, 64), trans="nt"),
        "mm_splitk": lambda: mm(64, 64, 256, split=4, tiles=(32, 32, 32)),
        "mm_1stage": lambda: mm(64, 64, 128, stages=1),
        "mm_cluster": lambda: mm(128, 128, 64, ctas=2, tiles=(128, 64, 32)),
        "mm_int8": lambda: matmul_int8[(2, 2)](ints(200, 128, 128).to(torch.int8), ints(200, 128, 128).to(torch.int8), z(128, 128, dtype=torch.int32), 128, 128, 64, 64, 64),
        "mm_int8_small": lambda: matmul_int8[(2, 2)](ints(200, 32, 64).to(torch.int8), ints(200, 32, 64).to(torch.int8), z(32, 32, dtype=torch.int32), 64, 32, 16, 16, 32, num_warps=1),
        "mm_persistent": lambda: matmul_persistent[(2,)](r(128, 64).half(), r(64, 192).half(), z(128, 192, dtype=torch.float16), 128, 192, 64, 64, 64, 32, 2),
        "tma_host": lambda: tma(matmul_tma, 128, 128, 128),
        "tma_host_kn": lambda: tma(matmul_tma, 128, 128, 128, tb=False),
        "tma_host_bf16": lambda: tma(matmul_tma, 128, 64, 192, dtype="bf16"),
        "tma_host_fp8": lambda: tma(matmul_tma, 128, 128, 128, dtype="e4m3", tiles=(64, 64, 128)),
        "tma_host_128x256": lambda: tma(matmul_tma, 128, 256, 128, tiles=(128, 256, 64), num_warps=8),
        "tma_persistent": lambda: tma(matmul_tma_persistent, 256, 128, 128, tiles=(64, 64, 64)),
        "tma_persistent_ws": lambda: tma(matmul_tma_persistent, 256, 128, 128, tiles=(128, 64, 64), ws=True),
        "tma_device": lambda: matmul_tma_device[(2, 2)](r(128, 128).half(), r(128, 128).half(), z(128, 128, dtype=torch.float16), 128, 128, 128, 64, 64, 64),
        "attention_f16": lambda: attend("f16", False),
        "attention_f16_causal": lambda: attend("f16", True),
        "attention_bf16_causal": lambda: attend("bf16", True, tiles=(64, 32)),
        "attention_f16_128": lambda: attend("f16", False, T=128, D=128, tiles=(128, 64), warps=8),
        "attention_backward": lambda: attend_back("f16"),
        "attention_backward_bf16": lambda: attend_back("bf16"),
        "sort_f32": lambda: sort_rows[(4,)](r(4, 256), z(4, 256), 256, False),
        "sort_s32_down": lambda: sort_rows[(4,)](ints(10**6, 4, 128), z(4, 128, dtype=torch.int32), 128, True),
        "sort_f16": lambda: sort_rows[(4,)](r(4, 512).half(), z(4, 512, dtype=torch.float16), 512, False),
        "topk": lambda: topk_rows[(4,)](r(4, 256), z(4, 8), 256, 8),
        "histogram": lambda: histogram[(4,)](ints(64, 1000), z(64, dtype=torch.int32), 1000, 256, 64),
        "cumsum": lambda: scan_rows[(4,)](r(4, 1024), z(4, 1024), 1024, 0, False),
        "cumsum_reverse": lambda: scan_rows[(4,)](r(4, 512), z(4, 512), 512, 0, True),
        "cumprod": lambda: scan_rows[(4,)](1 + 0.01 * r(4, 512), z(4, 512), 512, 1, False),
        "cumsum_f64": lambda: scan_rows[(2,)](r(2, 256).double(), z(2, 256, dtype=torch.float64), 256, 0, False),
        "cumsum_s64": lambda: scan_rows[(2,)](torch.randint(0, 9**9, (2, 256)), z(2, 256, dtype=torch.int64), 256, 0, False),
        "linear_recurrence": lambda: linear_recurrence[(1,)](torch.rand(512), r(512), z(512), 512),
        "transpose": lambda: transpose[(3, 3)](r(70, 90), z(90, 70), 70, 90, 32),
        "transpose_f16": lambda: transpose[(2, 2)](r(64, 64).half(), z(64, 64, dtype=torch.float16), 64, 64, 32),
        "transpose_s8": lambda: transpose[(2, 2)](ints(100, 64, 64).to(torch.int8), z(64, 64, dtype=torch.int8), 64, 64, 32),
        "quantise_s8": lambda: quantise[(8,)](r(8, 256), z(8, 256, dtype=torch.int8), z(8), 256),
        "quantise_e4m3": lambda: quantise_fp8[(8,)](r(8, 256), z(8, 256).to(DT["e4m3"]), z(8), 256),
        "quantise_e5m2": lambda: quantise_fp8[(8,)](r(8, 256).bfloat16(), z(8, 256).to(DT["e5m2"]), z(8), 256),
        "dequantise_e4m3": lambda: dequantise[(8,)](r(8, 256).to(DT["e4m3"]), r(8), z(8, 256, dtype=torch.bfloat16), 256),
        "dequantise_s8": lambda: dequantise[(8,)](ints(100, 8, 256).to(torch.int8), r(8), z(8, 256, dtype=torch.float16), 256),
        "dropout": lambda: dropout[(4,)](r(1000), z(1000), 1000, 0.3, 123, 256),
        "normals": lambda: normals[(2,)](z(1024), 17, 512),
        "spin_sum": lambda: spin_sum[(6,)](r(6, 128), z(128), z(1, dtype=torch.int32), z(1, dtype=torch.int32), 128, num_warps=1),
        "conv3x3": lambda: conv3x3[(4,)](r(100, 32).half(), r(9, 32, 32).half(), z(100, 32, dtype=torch.float16), 10, 10, 32, 32, 32),
        "gather_rows": lambda: gather_rows[(12,)](r(40, 128), torch.randint(0, 40, (12,)), z(12, 128), 128),
        "gather_in_block": lambda: gather_in_block[(1,)](r(256), ints(256, 256), z(256), 256),
        "argmax": lambda: argmax_rows[(8,)](r(8, 256), z(8, dtype=torch.int32), z(8), 256),
        "variance": lambda: variance_rows[(8,)](r(8, 512), z(8), z(8), 512),
        "assert": lambda: checked[(4,)](r(1000), z(1000), 1000, 256, debug=True),
        "print": lambda: printing[(1,)](ints(50, 32), z(32, dtype=torch.int32), 32, num_warps=1),
    }  # fmt: skip
    for which, name in enumerate(("lgamma", "tan", "pow", "erfinv", "j0", "log1p", "atan2", "cbrt")):
        found["libdevice_" + name] = lambda which=which: special[(2,)](r(400), z(400), 400, which, 256)
    found["libdevice_lgamma_f64"] = lambda: special[(1,)](r(200).double(), z(200, dtype=torch.float64), 200, 0, 256)
    for which, (name, kind) in enumerate((("add", torch.float32), ("max", torch.int32), ("min", torch.float32), ("or", torch.int32), ("xor", torch.int32))):
        found[f"atomic_{name}"] = lambda which=which, kind=kind: atomics[(4,)]((torch.randn(1000) * 1000).to(kind), torch.zeros(7, dtype=kind), 1000, which, 256)
    found["atomic_add_f16"] = lambda: atomics[(2,)](torch.randint(-8, 8, (500,)).half(), torch.zeros(7, dtype=torch.float16), 500, 0, 256)
    found["atomic_add_f64"] = lambda: atomics[(2,)](torch.randn(500).double(), torch.zeros(7, dtype=torch.float64), 500, 0, 256)
    return found
