"""Run by scripts/judge-entries.test.ts, with TILEWRIGHT naming the command line of the sources."""
import subprocess
import sys
import types
import unittest

import tilewright

PTX = """.version 7.0
.target sm_70
.address_size 64
.visible .entry k(.param .u64 out, .param .u32 n, .param .u64 scratch)
{
  .reg .pred %p<2>;
  .reg .b32 %r<4>;
  .reg .b64 %rd<4>;
  ld.param.u64 %rd1, [out];
  ld.param.u32 %r1, [n];
  mov.u32 %r2, %ctaid.x;
  setp.ge.u32 %p1, %r2, %r1;
  @%p1 bra DONE;
  st.global.u32 [%rd1], %r2;
DONE:
  ret;
}
"""


class Tensor:
    dtype = "torch.float32"
    shape = (4, 8)


def compiled(text):
    metadata = types.SimpleNamespace(name="k", num_warps=4, num_ctas=1, shared=64)
    return types.SimpleNamespace(metadata=metadata, asm={"ptx": text})


class Judge(unittest.TestCase):
    def test_report(self):
        launch = tilewright.triton_launch(compiled(PTX), (3,), [Tensor(), 2])
        self.assertEqual((launch["grid"], launch["block"], launch["dynamicSmem"]), ([3, 1, 1], 128, 64))
        self.assertEqual(launch["params"], [{"buffer": "arg0"}, 2, {"buffer": "arg2"}])
        report = tilewright.emulate(PTX, launch, profile="triton", order="all")
        self.assertFalse(report.ok)
        self.assertEqual({finding.rule for finding in report.findings}, {"H094"})
        self.assertEqual(report.findings[0].line, 14)
        self.assertEqual(report.differing, ["arg0"])
        alone = tilewright.emulate(PTX, {**launch, "grid": 1})
        self.assertTrue(alone.ok, alone)

    def test_refusals(self):
        with self.assertRaises(tilewright.Error) as caught:
            tilewright.emulate(PTX, {"entry": "f", "grid": 1, "block": 32})
        self.assertIn("TW", str(caught.exception))
        with self.assertRaises(ValueError):
            odd = Tensor()
            odd.dtype = "complex64"
            tilewright.triton_launch(compiled(PTX), (1,), [odd, 2])

    def test_explain(self):
        self.assertIn("fence.proxy.async", tilewright.explain("H033")["fix"])

    def test_module(self):
        done = subprocess.run([sys.executable, "-m", "tilewright", "explain", "H0"], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        self.assertEqual(done.returncode, 2)


if __name__ == "__main__":
    unittest.main()
