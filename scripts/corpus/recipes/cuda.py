"""Public CUDA kernels: (source, what the demangled entry starts with, grid, block, arguments, dynamic shared bytes).

Arguments: NAME:TYPE:FILL:COUNT for a buffer (n normal, p positive, z zeros, iHIGH integers, aSTEP multiples of STEP), else a number.
"""
LLM = "karpathy/llm.c:dev/cuda/"
FAST = ["-O3", "--use_fast_math", "-arch=sm_90"]

B, T, C, NH = 2, 64, 128, 2
HS = C // NH
N = B * T


def rows(n, c, kind="f32"):
    return f"out:{kind}:z:{n*c} inp:{kind}:n:{n*c} {n} {c}"


SQ = f"{B*NH*T*T}"
QKV = f"q:f32:z:{N*C} k:f32:z:{N*C} v:f32:z:{N*C} inp:f32:n:{3*N*C} {B} {T} {NH} {HS}"
BACK = f"dpreatt:f32:z:{SQ} datt:f32:n:{SQ} att:f32:p:{SQ} {B} {T} {C} "
ADAM = "p:f32:n:3000 g:f32:n:3000 m:f32:n:3000 v:f32:p:3000 i64=3000 0.001 0.9 0.999 0.1 0.001 1e-8 0.01"
CLASS = f"dlogits:f32:z:{8*512} losses:f32:z:8 {{}}logits:f32:n:{8*512} dlosses:f32:n:8 targets:s32:i500:8 2 4 500 512"
ENC = f"out:bf16:z:{N*C} inp:s32:i50:{N} wte:bf16:n:{50*C} wpe:bf16:n:{T*C} {B} {T} {C}"
LNF = f"out:f32:z:{N*C} mean:f32:z:{N} rstd:f32:z:{N} inp:f32:n:{N*C} w:f32:n:{C} b:f32:n:{C} {N} {C}"
RES = f"residual:bf16:z:{N*256} normed:bf16:z:{N*256} mean:bf16:z:{N} rstd:bf16:z:{N} inp1:bf16:n:{N*256} inp2:bf16:n:{N*256} w:bf16:n:256 b:bf16:n:256 {N} 256"
LNB = f"dinp:{{0}}:z:{N*256} dw:{{0}}:z:256 db:{{0}}:z:256 {{1}}dout:{{0}}:n:{N*256} inp:{{0}}:n:{N*256} w:{{0}}:n:256 mean:{{0}}:n:{N} rstd:{{0}}:p:{N} {B} {T} 256"
SCR = "scratch:f32:z:40000 "
SG = "128 128 64 1.5 a:f32:n:8192 b:f32:n:8192 0.5 c:f32:n:16384"
BIAS = f"dbias:{{}}:z:128 dout:{{}}:n:{N*128} {B} {T} 128"

LAUNCHES = [
    (LLM + "adamw.cu", "adamw_kernel1", 6, 512, ADAM, 0),
    (LLM + "adamw.cu", "adamw_kernel2", 6, 512, ADAM, 0),
    (LLM + "attention_backward.cu", "permute_kernel(", 16, 1024, QKV, 0),
    (LLM + "attention_backward.cu", "permute_kernel_backward", 16, 1024, f"dinp:f32:z:{3*N*C} dq:f32:n:{N*C} dk:f32:n:{N*C} dv:f32:n:{N*C} {B} {T} {NH} {HS}", 0),
    (LLM + "attention_backward.cu", "unpermute_kernel(", 16, 1024, f"inp:f32:n:{N*C} out:f32:z:{N*C} {B} {T} {NH} {HS}", 0),
    (LLM + "attention_backward.cu", "softmax_forward_kernel5", 32, 256, f"out:f32:z:{SQ} 0.125 inp:f32:n:{SQ} {B*NH} {T}", 0),
    *[(LLM + "attention_backward.cu", f"softmax_autoregressive_backward_kernel{k}", [1, B * NH], 64, BACK + f"{NH}", 0) for k in (1, 2)],
    (LLM + "attention_backward.cu", "softmax_autoregressive_backward_kernel3", [64, B * NH], 32, BACK + f"{NH}", 0),
    (LLM + "attention_backward.cu", "softmax_autoregressive_backward_kernel4", [16, B * NH], 128, BACK + f"{NH}", 0),
    (LLM + "attention_backward.cu", "softmax_autoregressive_backward_kernel5", [64, B * NH], 128, BACK + f"{NH}", 0),
    (LLM + "attention_backward.cu", "void softmax_autoregressive_backward_kernel6<128>", [128, 1], 128, "dpreatt:f32:z:16384 datt:f32:n:16384 att:f32:p:16384 1 128 64 1", 0),
    (LLM + "attention_backward.cu", "void softmax_autoregressive_backward_kernel7<128>", [T, B * NH], 128, BACK + "0.125", 0),
    (LLM + "attention_backward.cu", "void softmax_autoregressive_backward_kernel8<128>", [T // 4, B * NH], 128, BACK + "0.125", 0),
    (LLM + "attention_forward.cu", "attention_query_key_kernel1", 64, 256, f"preatt:f32:z:{SQ} inp:f32:n:{3*N*C} {B} {T} {C} {NH}", 0),
    (LLM + "attention_forward.cu", "attention_softmax_kernel1", 1, 256, f"att:f32:z:{SQ} preatt:f32:n:{SQ} {B} {T} {NH}", 0),
    (LLM + "attention_forward.cu", "attention_value_kernel1", 1, 256, f"out:f32:z:{N*C} att:f32:p:{SQ} inp:f32:n:{3*N*C} {B} {T} {C} {NH}", 0),
    (LLM + "attention_forward.cu", "softmax_forward_kernel4", 128, 64, f"out:f32:z:{128*T} inp:f32:n:{128*T} 128 {T}", 16),
    (LLM + "attention_forward.cu", "attention_forward_kernel2", [B, NH], 32, f"q:f32:n:{N*C} k:f32:n:{N*C} v:f32:n:{N*C} {T} {HS} 2 2 32 32 0.125 l:f32:z:{B*NH*T} m:f32:ninf:{B*NH*T} o:f32:z:{N*C}", 4 * (3 * 32 * HS + 32 * 32) + 1024),
    (LLM + "attention_forward.cu", "scale_kernel", 16, 1024, f"inp:f32:n:{SQ} 0.125 {B} {NH} {T}", 0),
    (LLM + "attention_forward.cu", "softmax_forward_kernel5_lowp", 32, 256, f"out:bf16:z:{SQ} 0.125 inp:bf16:n:{SQ} {B*NH} {T}", 0),
    (LLM + "attention_forward.cu", "permute_kernel_lowp", 16, 1024, f"q:bf16:z:{N*C} k:bf16:z:{N*C} v:bf16:z:{N*C} inp:f32:n:{3*N*C} {B} {T} {NH} {HS}", 0),
    (LLM + "attention_forward.cu", "unpermute_kernel_lowp", 16, 1024, f"inp:bf16:n:{N*C} out:f32:z:{N*C} {B} {T} {NH} {HS}", 0),
    (LLM + "classifier_fused.cu", "fused_classifier_kernel1", 1, 256, CLASS.format(""), 0),
    *[(LLM + "classifier_fused.cu", f"fused_classifier_kernel{k}", 8, 256, CLASS.format("0 "), 0) for k in (2, 3, 4)],
    (LLM + "classifier_fused.cu", "void fused_classifier_kernel5<true, false>", 8, 1024, CLASS.format("0 "), 0),
    (LLM + "crossentropy_forward.cu", "crossentropy_forward_kernel1", 1, 128, "losses:f32:z:100 probs:f32:p:20000 targets:s32:i200:100 4 25 200", 0),
    (LLM + "crossentropy_softmax_backward.cu", "crossentropy_softmax_backward_kernel1", 20, 1024, "dlogits:f32:n:20000 dlosses:f32:n:100 probs:f32:p:20000 targets:s32:i200:100 4 25 200", 0),
    *[(LLM + "encoder_backward.cu", f"encoder_backward_kernel{k}", g, 256, f"dwte:f32:z:{50*C} dwpe:f32:z:{T*C} dout:f32:n:{N*C} inp:s32:i50:{N} {B} {T} {C}", 0) for k, g in ((1, 64), (2, 1))],
    *[(LLM + "encoder_forward.cu", f"encoder_forward_kernel{k}", g, 256, ENC, 0) for k, g in ((1, 1), (2, 64), (3, 8))],
    (LLM + "fused_residual_forward.cu", "residual_forward_kernel1", 128, 256, f"out:bf16:z:{N*256} a:bf16:n:{N*256} b:bf16:n:{N*256} {N*256}", 0),
    (LLM + "fused_residual_forward.cu", "layernorm_forward_kernel1", 1, 128, f"out:bf16:z:{N*64} mean:bf16:z:{N} rstd:bf16:z:{N} inp:bf16:n:{N*64} w:bf16:n:64 b:bf16:n:64 {N} 64", 0),
    (LLM + "fused_residual_forward.cu", "fused_residual_forward2", 1, 128, RES, 0),
    *[(LLM + "fused_residual_forward.cu", f"fused_residual_forward{k}", 32, [32, 4], RES, 0) for k in ("3", "_kernel4")],
    (LLM + "fused_residual_forward.cu", "fused_residual_forward_kernel5", 32, [32, 4], RES, 6 * 256 * 2),
    (LLM + "fused_residual_forward.cu", "fused_residual_forward_kernel6", 16, [32, 1, 4], RES, 256 * 2 * 2 + 4 * 128 * 2 * 4),
    *[(LLM + "gelu_backward.cu", f"gelu_backward{k}", g, 128, "dinp:bf16:z:8192 inp:bf16:n:8192 dout:bf16:n:8192 8192", 0) for k, g in ((1, 64), (2, 8))],
    *[(LLM + "gelu_forward.cu", f"gelu_forward_kernel{k}", g, 128, "out:bf16:z:8192 inp:bf16:n:8192 8192", 0) for k, g in ((1, 64), (2, 8))],
    *[(LLM + "global_norm.cu", f"void norm_kernel{k}<__nv_bfloat16>", 4, 256, "out:f32:z:64 data:bf16:n:20000 i64=20000", 0) for k in (1, 2, 3, 4)],
    (LLM + "global_norm.cu", "global_norm_aggregate_kernel", 1, 1024, "out:f32:n:900 i64=900", 0),
    (LLM + "layernorm_backward.cu", "layernorm_backward_kernel1", 1, 128, LNB.format("f32", ""), 0),
    *[(LLM + "layernorm_backward.cu", f"void layernorm_backward_kernel{k}<", 4, 512, LNB.format("bf16", ""), 2 * 256 * 4) for k in (3, 4)],
    *[(LLM + "layernorm_backward.cu", f"void layernorm_backward_kernel{k}<", 4, 512, LNB.format("bf16", SCR), (2 * 256 + 1) * 4) for k in (5, 6)],
    *[(LLM + "layernorm_backward.cu", f"layernorm_backward_kernel{k}(", 4, 512, LNB.format("bf16", SCR), (2 * 256 + 1) * 4 + (0 if k < 9 else 2 * 16 * 32 * 8 * 4)) for k in (7, 8, 9, 10)],
    (LLM + "layernorm_forward.cu", "layernorm_forward_kernel1", 1, 128, LNF, 0),
    (LLM + "layernorm_forward.cu", "mean_kernel", N, 64, f"mean:f32:z:{N} inp:f32:n:{N*C} {N} {C} 64", 256),
    (LLM + "layernorm_forward.cu", "rstd_kernel", N, 64, f"rstd:f32:z:{N} inp:f32:n:{N*C} mean:f32:n:{N} {N} {C} 64", 256),
    (LLM + "layernorm_forward.cu", "normalization_kernel", 64, 256, f"out:f32:z:{N*C} inp:f32:n:{N*C} mean:f32:n:{N} rstd:f32:p:{N} w:f32:n:{C} b:f32:n:{C} {B} {T} {C}", 0),
    (LLM + "layernorm_forward.cu", "layernorm_forward_kernel3", 32, 128, LNF, 0),
    (LLM + "layernorm_forward.cu", "layernorm_forward_kernel4", 32, 128, LNF, 0),
    (LLM + "layernorm_forward.cu", "layernorm_forward_kernel5", N, 128, LNF, 0),
    (LLM + "layernorm_forward.cu", "layernorm_forward_kernel6", 32, [32, 4], LNF, (2 + 4) * C * 4),
    (LLM + "matmul_backward.cu", "matmul_backward_bias_kernel_naive", 1, 128, BIAS.format("f32", "f32"), 0),
    (LLM + "matmul_backward.cu", "matmul_backward_bias_kernel_faster", 128, 64, BIAS.format("f32", "f32"), 256),
    (LLM + "matmul_backward_bias.cu", "matmul_backward_bias_kernel1", 128, 64, BIAS.format("bf16", "bf16"), 512),
    (LLM + "matmul_backward_bias.cu", "matmul_backward_bias_kernel2", 32, 128, BIAS.format("bf16", "bf16"), 0),
    (LLM + "matmul_backward_bias.cu", "matmul_backward_bias_kernel3", 128, 128, BIAS.format("bf16", "bf16"), 0),
    (LLM + "matmul_backward_bias.cu", "matmul_backward_bias_kernel4", 4, 128, BIAS.format("bf16", "bf16"), 512),
    (LLM + "matmul_backward_bias.cu", "cast_and_add_kernel", 1, 256, "dst:bf16:n:200 src:f32:n:200 i64=200", 0),
    (LLM + "matmul_backward_bias.cu", "matmul_backward_bias_kernel7", [1, 4], [32, 16], f"dbias:f32:z:128 dout:bf16:n:{N*128} {B} {T} 128 512", 256 * 4),
    (LLM + "matmul_backward_bias.cu", "reduce_add_sum_kernel", 1, 256, "dst:bf16:n:256 src:f32:n:1024 i64=256 i64=4", 0),
    *[(LLM + "matmul_backward_bias.cu", f"void matmul_backward_bias_kernel{k}<__nv_bfloat16, false>", [2, 1], [4, 8, 8], BIAS.format("bf16", "bf16") + " 0", 0) for k in (8, 9)],
    *[(LLM + "matmul_backward_bias.cu", f"void matmul_backward_bias_kernel{k}<float, true>", [2, 2], [4, 8, 8], f"dbias:f32:z:4096 dout:bf16:n:{N*128} {B} {T} 128 0", 0) for k in (8, 9)],
    (LLM + "matmul_forward.cu", "matmul_forward_kernel1", [4, 4], [16, 16], "out:f32:z:4096 inp:f32:n:4096 w:f32:n:4096 b:f32:n:64 64 64 64", 0),
    (LLM + "matmul_forward.cu", "add_bias", 4, 256, "out:f32:n:4096 b:f32:n:64 2 32 64", 0),
    (LLM + "matmul_forward.cu", "matmul_forward_kernel4", [1, 1], [16, 16], "out:f32:z:16384 inp:f32:n:8192 w:f32:n:8192 b:f32:n:128 64 128", 0),
    (LLM + "permute.cu", "permute_kernel", 8, 256, "m:f32:n:1920 p:f32:z:1920 4 6 8 10", 0),
    *[(LLM + "residual_forward.cu", f"residual_forward_kernel{k}", g, 128, "out:bf16:z:8192 a:bf16:n:8192 b:bf16:n:8192 8192", 0) for k, g in ((1, 64), (2, 8))],
    (LLM + "softmax_forward.cu", "softmax_forward_kernel1", 1, 128, rows(40, 100), 0),
    (LLM + "softmax_forward.cu", "softmax_forward_kernel2", 40, 128, rows(40, 100), 512),
    (LLM + "softmax_forward.cu", "softmax_forward_kernel3", 40, 32, rows(40, 100), 128),
    (LLM + "softmax_forward.cu", "softmax_forward_kernel4", 40, 128, rows(40, 100), 32),
    (LLM + "softmax_forward.cu", "softmax_forward_online_kernel1", 1, 128, rows(40, 100), 0),
    (LLM + "softmax_forward.cu", "softmax_forward_online_kernel2", 40, 128, rows(40, 100), 0),
    (LLM + "softmax_forward.cu", "softmax_forward_kernel7", 40, 128, rows(40, 1000), 1000 * 4 + 256),
    (LLM + "softmax_forward.cu", "softmax_forward_online_kernel8", 10, 128, rows(40, 100), 0),
    *[(LLM + "trimat_forward.cu", f"void trimul_global<&({k}(", [1, 1, 2], [16, 16], f"out:f32:z:{2*128*128} inp:f32:n:{3*128*64} 128 64 2", 0) for k in ("matmul_tri_naive", "matmul_tri_registers", "matmul_tri3", "matmul_tri4")],
]

SGEMM = "siboehm/SGEMM_CUDA:src/runner.cu"
PLAIN = ["-O3", "-std=c++17", "-arch=sm_90"]
SGEMMS = [
    (SGEMM, start, grid, block, SG, 0)
    for start, grid, block in (
        ("sgemm_naive", [4, 4], [32, 32]), ("void sgemm_global_mem_coalesce<32u>", [4, 4], 1024), ("void sgemm_shared_mem_block<32>", [4, 4], 1024),
        ("void sgemm1DBlocktiling<", [2, 2], 512), ("void sgemm2DBlocktiling<128", [1, 1], 256), ("void sgemm2DBlocktiling<64", [2, 2], 64),
        ("void sgemmVectorize<128", [1, 1], 256), ("void sgemmResolveBankConflicts<128", [1, 1], 256), ("void sgemmResolveBankExtraCol<128", [1, 1], 256),
        ("void sgemmAutotuned<", [1, 1], 256), ("void sgemmWarptiling<", [1, 1], 128), ("void runSgemmDoubleBuffering2<", [1, 1], 128),
    )
]  # fmt: skip
SGEMMS.append((SGEMM, "void sgemmDoubleBuffering<", [1, 1], 256, "128 256 64 1.5 a:f32:n:8192 b:f32:n:16384 0.5 c:f32:n:32768", 0))

CS = "NVIDIA/cuda-samples:Samples/"
TWO, ZERO = CS + "2_Concepts_and_Techniques/", CS + "0_Introduction/"
SORT = "dk:u32:z:4096 dv:u32:z:4096 sk:u32:i100000:4096 sv:u32:i100000:4096 "
MM = "c:f32:z:4096 a:f32:n:4096 b:f32:n:4096 64 64"
IM = "im:f32:n:4096 "
W16 = "a:{0}:n:{1} b:{0}:n:{1} c:f32:n:16384 d:f32:z:16384 1.1 1.2"
SIMPLE = "a:{0}:n:4096 b:{0}:n:4096 c:{1}:n:4096 d:{1}:z:4096 64 64 64 1.1 1.2"
SAMPLES = [
    *[(TWO + "reduction/reduction_kernel.cu", f"void reduce{k}<int>", 4, 256, "i:s32:i1000:1024 o:s32:z:4 1024", 1024) for k in (0, 1, 2, 3)],
    (TWO + "reduction/reduction_kernel.cu", "void reduce4<float, 256u>", 2, 256, "i:f32:n:1024 o:f32:z:4 1024", 1024),
    (TWO + "reduction/reduction_kernel.cu", "void reduce5<double, 128u>", 4, 128, "i:f64:n:1024 o:f64:z:4 1024", 2048),
    (TWO + "reduction/reduction_kernel.cu", "void reduce6<float, 256u, true>", 2, 256, "i:f32:n:2048 o:f32:z:2 2048", 1024),
    (TWO + "reduction/reduction_kernel.cu", "void reduce7<float, 256u, true>", 2, 256, "i:f32:n:2048 o:f32:z:2 2048", 1024),
    (TWO + "reduction/reduction_kernel.cu", "void cg_reduce<float>", 4, 256, "i:f32:n:2048 o:f32:z:4 2048", 1024),
    (TWO + "reduction/reduction_kernel.cu", "void multi_warp_cg_reduce<float", 2, 1024, "i:f32:n:4096 o:f32:z:2 4096", 4096),
    (TWO + "scan/scan.cu", "scanExclusiveShared(", 4, 256, "d:u32:z:4096 s:u32:i1000:4096 1024", 0),
    (TWO + "scan/scan.cu", "scanExclusiveShared2", 1, 256, "b:u32:z:256 d:u32:n:4096 s:u32:i100:4096 4 4", 0),
    (TWO + "scan/scan.cu", "uniformUpdate", 4, 256, "d:u32:i1000:4096 b:u32:i1000:4", 0),
    (TWO + "histogram/histogram64.cu", "histogram64Kernel", 4, 64, "p:u32:z:256 d:u32:i2000000000:4096 1024", 0),
    (TWO + "histogram/histogram64.cu", "mergeHistogram64Kernel", 64, 256, "h:u32:z:64 p:u32:i100:256 4", 0),
    (TWO + "histogram/histogram256.cu", "histogram256Kernel", 4, 192, "p:u32:z:1024 d:u32:i2000000000:4096 4096", 0),
    (TWO + "histogram/histogram256.cu", "mergeHistogram256Kernel", 256, 256, "h:u32:z:256 p:u32:i100:1024 4", 0),
    (ZERO + "mergeSort/mergeSort.cu", "void mergeSortSharedKernel<1u>", 2, 512, SORT + "1024", 0),
    (ZERO + "mergeSort/bitonic.cu", "bitonicSortSharedKernel", 4, 512, SORT + "1024 1", 0),
    (TWO + "sortingNetworks/bitonicSort.cu", "bitonicSortShared(", 4, 512, SORT + "1024 1", 0),
    (TWO + "sortingNetworks/bitonicSort.cu", "bitonicSortShared1", 4, 512, SORT, 0),
    (TWO + "sortingNetworks/bitonicSort.cu", "bitonicMergeGlobal", 8, 256, SORT + "4096 4096 2048 1", 0),
    (TWO + "sortingNetworks/bitonicSort.cu", "bitonicMergeShared", 4, 512, SORT + "4096 2048 1", 0),
    (TWO + "sortingNetworks/oddEvenMergeSort.cu", "oddEvenMergeSortShared", 4, 512, SORT + "1024 1", 0),
    (TWO + "sortingNetworks/oddEvenMergeSort.cu", "oddEvenMergeGlobal", 8, 256, SORT + "4096 4096 1024 1", 0),
    (TWO + "convolutionSeparable/convolutionSeparable.cu", "convolutionRowsKernel", [1, 8], [16, 4], "d:f32:z:4096 s:f32:n:4096 128 32 128", 0),
    (TWO + "convolutionSeparable/convolutionSeparable.cu", "convolutionColumnsKernel", [4, 1], [16, 8], "d:f32:z:4096 s:f32:n:4096 64 64 64", 0),
    (TWO + "shfl_scan/shfl_scan.cu", "shfl_scan_test", 8, 256, "d:s32:i100:2048 32 p:s32:z:8", 64),
    (TWO + "shfl_scan/shfl_scan.cu", "shfl_vertical_shfl", 2, [32, 8], "d:u32:i100:69120 64 1080", 0),
    (TWO + "shfl_scan/shfl_scan.cu", "uniform_add", 7, 256, "d:s32:i100:2048 p:s32:i100:8 1792", 0),
    (TWO + "scalarProd/scalarProd.cu", "scalarProdGPU", 4, 256, "c:f32:z:8 a:f32:n:8192 b:f32:n:8192 8 1024", 0),
    (TWO + "threadFenceReduction/threadFenceReduction.cu", "void reduceMultiPass<256u, true>", 2, 256, "i:f32:n:2048 o:f32:z:2 2048", 1024),
    (TWO + "threadFenceReduction/threadFenceReduction.cu", "void reduceSinglePass<256u, true>", 4, 256, "i:f32:n:2048 o:f32:z:4 2048", 1024),
    (TWO + "dct8x8/dct8x8.cu", "CUDAkernel2DCT", [2, 4], [8, 4, 2], "d:f32:z:4096 " + IM + "64", 0),
    (TWO + "dct8x8/dct8x8.cu", "CUDAkernel2IDCT", [2, 4], [8, 4, 2], "d:f32:z:4096 " + IM + "64", 0),
    (TWO + "dct8x8/dct8x8.cu", "CUDAkernelQuantizationFloat", [8, 8], [8, 8], IM + "64", 0),
    (TWO + "dct8x8/dct8x8.cu", "CUDAkernelQuantizationShort", [8, 8], [8, 8], "im:s16:i2000:4096 64", 0),
    (TWO + "dct8x8/dct8x8.cu", "CUDAkernelShortDCT", [2, 2], [8, 4, 4], "im:s16:i200:4096 64", 0),
    (TWO + "dct8x8/dct8x8.cu", "CUDAkernelShortIDCT", [2, 2], [8, 4, 4], "im:s16:i200:4096 64", 0),
    (TWO + "inlinePTX/inlinePTX.cu", "sequence_gpu", 2, 256, "p:s32:z:512 500", 0),
    (ZERO + "matrixMul/matrixMul.cu", "void MatrixMulCUDA<16>", [4, 4], [16, 16], MM, 0),
    (ZERO + "matrixMul/matrixMul.cu", "void MatrixMulCUDA<32>", [2, 2], [32, 32], MM, 0),
    (ZERO + "fp16ScalarProduct/fp16ScalarProduct.cu", "scalarProductKernel_native", 4, 128, "a:f16:n:8192 b:f16:n:8192 r:f32:z:4 i64=4096", 0),
    (ZERO + "fp16ScalarProduct/fp16ScalarProduct.cu", "scalarProductKernel_intrinsics", 4, 128, "a:f16:n:8192 b:f16:n:8192 r:f32:z:4 i64=4096", 0),
    (ZERO + "simpleVoteIntrinsics/simpleVoteIntrinsics.cu", "VoteAnyKernel1", 1, 128, "i:u32:i2:128 r:u32:z:128 128", 0),
    (ZERO + "simpleVoteIntrinsics/simpleVoteIntrinsics.cu", "VoteAllKernel2", 1, 128, "i:u32:i2:128 r:u32:z:128 128", 0),
    (ZERO + "simpleVoteIntrinsics/simpleVoteIntrinsics.cu", "VoteAnyKernel3", 1, 96, "i:u8:z:288 32", 0),
    (ZERO + "simpleAtomicIntrinsics/simpleAtomicIntrinsics.cu", "testKernel", 4, 64, "o:s32:i100:16", 0),
    (ZERO + "simplePrintf/simplePrintf.cu", "testKernel", 2, [2, 2], "10", 0),
    *[(CS + "3_CUDA_Features/globalToShmemAsyncCopy/globalToShmemAsyncCopy.cu", f"void {name}<16>", [4, 4], [16, 16], MM, 0) for name in (
        "MatrixMulAsyncCopyMultiStageLargeChunk", "MatrixMulAsyncCopyLargeChunk", "MatrixMulAsyncCopyLargeChunkAWBarrier", "MatrixMulAsyncCopyMultiStage", "MatrixMulAsyncCopySingleStage", "MatrixMulNaive", "MatrixMulNaiveLargeChunk")],
    (CS + "3_CUDA_Features/globalToShmemAsyncCopy/globalToShmemAsyncCopy.cu", "void MatrixMulAsyncCopyMultiStageSharedState<16>", [4, 4], [16, 20], MM, 0),
    (CS + "3_CUDA_Features/binaryPartitionCG/binaryPartitionCG.cu", "oddEvenCountAndSumCG", 2, 256, "i:s32:i100:2000 n:s32:z:1 s:s32:z:2 2000", 0),
    (CS + "3_CUDA_Features/warpAggregatedAtomicsCG/warpAggregatedAtomicsCG.cu", "filter_arr", 4, 256, "d:s32:z:1000 n:s32:z:1 s:s32:i100:1000 1000", 0),
    (CS + "3_CUDA_Features/warpAggregatedAtomicsCG/warpAggregatedAtomicsCG.cu", "mapToBuckets", 4, 256, "s:s32:i5:1000 i:s32:z:5000 c:s32:a1000:5 1000 5", 0),
    (CS + "3_CUDA_Features/warpAggregatedAtomicsCG/warpAggregatedAtomicsCG.cu", "calculateMaxInEachBuckets", 4, 256, "s:s32:i100:1000 i:s32:i5:1000 m:s32:z:5 1000 5", 0),
    (CS + "5_Domain_Specific/BlackScholes/BlackScholes.cu", "BlackScholesGPU", 4, 128, "c:f32:z:1024 p:f32:z:1024 s:f32:p:1024 x:f32:p:1024 t:f32:p:1024 0.02 0.3 1024", 0),
    (CS + "5_Domain_Specific/quasirandomGenerator/quasirandomGenerator_kernel.cu", "inverseCNDKernel", 2, 128, "o:f32:z:1000 i:u32:i4000000000:1000 1000", 0),
    (CS + "5_Domain_Specific/fastWalshTransform/fastWalshTransform.cu", "fwtBatch1Kernel", 4, 256, "o:f32:z:4096 i:f32:n:4096 10", 4096),
    (CS + "5_Domain_Specific/fastWalshTransform/fastWalshTransform.cu", "fwtBatch2Kernel", 4, 256, "o:f32:z:4096 i:f32:n:4096 256", 0),
    (CS + "5_Domain_Specific/fastWalshTransform/fastWalshTransform.cu", "modulateKernel", 4, 256, "a:f32:n:4096 b:f32:n:4096 4096", 0),
    *[(CS + "6_Performance/transpose/transpose.cu", name, [2, 2], [32, 16], "o:f32:z:4096 i:f32:n:4096 64 64", 0) for name in ("copy(", "copySharedMem", "transposeNaive", "transposeCoalesced", "transposeNoBankConflicts", "transposeDiagonal", "transposeFineGrained", "transposeCoarseGrained")],
    (CS + "5_Domain_Specific/nbody/bodysystemcuda.cu", "void integrateBodies<float>", 2, 64, "n:f32:z:512 o:f32:n:512 v:f32:n:512 0 128 0.01 0.99 2", 1024),
    (CS + "5_Domain_Specific/nbody/bodysystemcuda.cu", "void integrateBodies<double>", 2, 64, "n:f64:z:512 o:f64:n:512 v:f64:n:512 0 128 0.01 0.99 2", 2048),
    (CS + "5_Domain_Specific/SobolQRNG/sobol_gpu.cu", "sobolGPU_kernel", [2, 4], 64, "256 4 d:u32:i2000000000:128 o:f32:z:1024", 0),
    (CS + "3_CUDA_Features/bf16TensorCoreGemm/bf16TensorCoreGemm.cu", "compute_bf16gemm(", 1, 256, W16.format("bf16", 32768), 73728),
    (CS + "3_CUDA_Features/bf16TensorCoreGemm/bf16TensorCoreGemm.cu", "compute_bf16gemm_async_copy", 1, 256, W16.format("bf16", 32768), 73728),
    (CS + "3_CUDA_Features/bf16TensorCoreGemm/bf16TensorCoreGemm.cu", "simple_wmma_bf16gemm", [1, 1], [128, 4], SIMPLE.format("bf16", "f32"), 0),
    (CS + "3_CUDA_Features/cudaTensorCoreGemm/cudaTensorCoreGemm.cu", "compute_gemm(", 1, 256, W16.format("f16", 32768), 73728),
    (CS + "3_CUDA_Features/cudaTensorCoreGemm/cudaTensorCoreGemm.cu", "simple_wmma_gemm", [1, 1], [128, 4], SIMPLE.format("f16", "f32"), 0),
    (CS + "3_CUDA_Features/immaTensorCoreGemm/immaTensorCoreGemm.cu", "compute_gemm_imma", 1, 256, "a:u8:i256:32768 b:u8:i256:32768 c:s32:i1000:16384 d:s32:z:16384 1 1", 73728),
    (CS + "3_CUDA_Features/immaTensorCoreGemm/immaTensorCoreGemm.cu", "simple_wmma_gemm_imma", [1, 1], [128, 4], "a:u8:i256:4096 b:u8:i256:4096 c:s32:i1000:4096 d:s32:z:4096 64 64 64 1 1", 0),
    (CS + "3_CUDA_Features/tf32TensorCoreGemm/tf32TensorCoreGemm.cu", "compute_tf32gemm(", 1, 256, W16.format("f32", 16384), 73728),
    (CS + "3_CUDA_Features/tf32TensorCoreGemm/tf32TensorCoreGemm.cu", "compute_tf32gemm_async_copy", 1, 256, W16.format("f32", 16384), 73728),
    (CS + "3_CUDA_Features/tf32TensorCoreGemm/tf32TensorCoreGemm.cu", "simple_wmma_tf32gemm", [1, 1], [128, 4], SIMPLE.format("f32", "f32"), 0),
    (CS + "3_CUDA_Features/dmmaTensorCoreGemm/dmmaTensorCoreGemm.cu", "simple_wmma_gemm", [1, 1], [128, 4], "a:f64:n:1024 b:f64:n:1024 c:f64:n:1024 d:f64:z:1024 32 32 32 1.1 1.2", 0),
]  # fmt: skip
# The samples multiply matrices of 8,192: here of eight tiles of 16, which the kernels take as well.
EDITS = {"TensorCoreGemm": [(r"#define ([MNK])_TILES +\d+", r"#define \1_TILES 8"), (r"#define K_TILES 8", "#define K_TILES 16")]}

FAST_CU = "pranjalssh/fast.cu"
MAPS = "a:bf16:n:{0} b:bf16:n:{1}"
# Of fast.cu, the kernels that get pointers to tensor maps: (header, entry, grid, block, M, N, K, box rows of A and B, shared bytes).
FASTS = [
    (2, "matmulKernel2<64, 64, 64, 64, 64, 16, 128>", 4, 128, 128, 128, 128, 64, 64, 0),
    (3, "matmulKernel3<128, 128, 64, 128, false>", 1, 128, 128, 128, 192, 128, 128, 2 * 128 * 64 * 2),
    (4, "matmulKernel4<128, 128, 64, 256, 5>", 2, 256, 128, 256, 384, 128, 128, 5 * 2 * 128 * 64 * 2),
    (5, "matmulKernel5<128, 256, 64, 384, 3>", 1, 384, 128, 256, 320, 128, 256, 3 * 384 * 64 * 2),
]
