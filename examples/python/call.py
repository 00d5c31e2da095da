"""A generated kernel library from plain Python: D = gelu(A.B + bias) in fp16, with nothing but ctypes and the driver.

    tilewright compile --library out --kernels examples/library.json
    python examples/python/call.py out

A is all ones, B all 1/64, the bias 0.5: every element of D is gelu(192/64 + 0.5) = 3.4992, rounded to f16.
Exit code 4 where there is no driver or no GPU.
"""
import ctypes
import importlib
import struct
import sys
import time

M, N, K = 256, 256, 192


def main(folder):
    start = time.perf_counter()
    sys.path.insert(0, folder)
    demo = importlib.import_module("demo")
    try:
        library = demo.Library()
    except demo.LaunchError as error:
        print(error)
        return 4
    cuda = ctypes.CDLL("libcuda.so.1")

    def buffer(value, elements):
        """Device memory with so many f16 of one value."""
        data, address = struct.pack("<e", value) * elements, ctypes.c_uint64()
        size = ctypes.c_size_t(len(data))
        if cuda.cuMemAlloc_v2(ctypes.byref(address), size) or cuda.cuMemcpyHtoD_v2(address, data, size):
            sys.exit("no memory on the GPU")
        return address.value

    a, b, d, bias = buffer(1, M * K), buffer(1 / 64, K * N), buffer(0, M * N), buffer(0.5, N)
    library.linear_gelu(M, N, K, a, b, d, epilogue={0: bias})
    raw = ctypes.create_string_buffer(2 * M * N)
    # On the default stream, as the launch: it waits for the kernel.
    if cuda.cuMemcpyDtoH_v2(raw, ctypes.c_uint64(d), ctypes.c_size_t(len(raw))):
        sys.exit("D cannot be read")
    values = struct.unpack("<%de" % (M * N), raw.raw)
    wrong = sum(not 3.497 < value < 3.501 for value in values)
    print("D[0] = %.4f, %d of %d elements wrong, %.2f s from import to D" % (values[0], wrong, M * N, time.perf_counter() - start))
    return int(wrong != 0)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1] if len(sys.argv) > 1 else "out"))
