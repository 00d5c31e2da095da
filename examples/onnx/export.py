"""A transformer encoder (BERT's blocks) with random weights as ONNX.

    python export.py tiny.onnx                          width 32, 2 heads, 1 layer, 16 tokens
    python export.py bert.onnx --shape bert --tokens 128  BERT-base's encoder

Needs torch, onnx and onnxscript. The same shape and seed give the same weights, as `run.py` counts on.
"""
import argparse

import torch
from torch import nn

SHAPES = {"tiny": dict(width=16, heads=2, hidden=32, layers=2), "bert": dict(width=768, heads=12, hidden=3072, layers=12)}


class Block(nn.Module):
    def __init__(self, width, heads, hidden):
        super().__init__()
        self.heads = heads
        self.query, self.key, self.value, self.out = (nn.Linear(width, width) for _ in range(4))
        self.up, self.down = nn.Linear(width, hidden), nn.Linear(hidden, width)
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)

    def split(self, x):
        return x.reshape(x.shape[0], x.shape[1], self.heads, -1).transpose(1, 2)

    def forward(self, x, mask):
        query, key, value = self.split(self.query(x)), self.split(self.key(x)), self.split(self.value(x))
        scores = query @ key.transpose(2, 3) / query.shape[-1] ** 0.5 + mask
        mixed = (torch.softmax(scores, -1) @ value).transpose(1, 2).reshape(x.shape)
        x = self.norm1(self.out(mixed) + x)
        return self.norm2(self.down(nn.functional.gelu(self.up(x))) + x)


class Encoder(nn.Module):
    """hidden [batch, tokens, width], mask [batch, 1, 1, tokens], added to the scores -> hidden."""

    def __init__(self, width, heads, hidden, layers):
        super().__init__()
        self.layers = nn.ModuleList(Block(width, heads, hidden) for _ in range(layers))
        for norm in (module for module in self.modules() if isinstance(module, nn.LayerNorm)):
            nn.init.normal_(norm.weight, 1, 0.1)
            nn.init.normal_(norm.bias, 0, 0.1)

    def forward(self, hidden, mask):
        for layer in self.layers:
            hidden = layer(hidden, mask)
        return hidden


def encoder(shape, layers=None, seed=1):
    """The model of a shape, in float32 on the CPU; weights are those that bfloat16 can hold."""
    torch.manual_seed(seed)
    return Encoder(**{**SHAPES[shape], **({"layers": layers} if layers else {})}).bfloat16().float().eval()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("file")
    parser.add_argument("--shape", choices=SHAPES, default="tiny")
    parser.add_argument("--batch", type=int, default=1)
    parser.add_argument("--tokens", type=int, default=16)
    parser.add_argument("--layers", type=int)
    arguments = parser.parse_args()
    model = encoder(arguments.shape, arguments.layers)
    inputs = torch.zeros(arguments.batch, arguments.tokens, SHAPES[arguments.shape]["width"]), torch.zeros(arguments.batch, 1, 1, arguments.tokens)
    program = torch.onnx.export(
        model, inputs, input_names=["hidden", "mask"], output_names=["encoded"],
        opset_version=20, dynamo=True, optimize=False, verbose=False,
    )
    graph = program.model_proto
    # Where each node comes from in the Python program is half of a small model.
    for node in graph.graph.node:
        del node.metadata_props[:]
    del graph.graph.value_info[:]
    with open(arguments.file, "wb") as file:
        file.write(graph.SerializeToString())


if __name__ == "__main__":
    main()
