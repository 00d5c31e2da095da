"""What onnxruntime makes of a model: random inputs that bfloat16 can hold, and its float32 outputs, in the graph's order, behind each other.

    python expect.py tiny.onnx      writes tiny.f32, which `node main.ts run tiny.onnx` compares with

Needs onnxruntime and numpy.
"""
import sys

import numpy as np
import onnxruntime

path = sys.argv[1]
session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
random = np.random.RandomState(2)
inputs = {}
for each in session.get_inputs():
    values = random.standard_normal(each.shape).astype(np.float32)
    if each.shape[-2] == 1:  # A mask: the last quarter of the tokens counts nothing.
        values[:] = 0
        values[..., each.shape[-1] * 3 // 4 :] = -1e4
    inputs[each.name] = ((values.view(np.uint32) + 0x8000) & 0xFFFF0000).view(np.float32)
np.concatenate([each.reshape(-1) for each in [*inputs.values(), *session.run(None, inputs)]]).tofile(path.replace(".onnx", ".f32"))
