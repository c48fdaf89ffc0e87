"""Products and norms of a port: a dtype and an order of summation.

Two correct programs agree up to the order of their sums. The reference of a
pair computes as PyTorch does ("native"), ours adds up the parts of each
product by itself ("parts"), so that what is right differs by rounding as well.
"""

import torch

DTYPES = {"fp32": torch.float32, "fp16": torch.float16,
          "bf16": torch.bfloat16, "fp64": torch.float64}


def to_tf32(x):
    """Rounds float32 to the 11 digits of a tensor core's inputs."""
    bits = x.float().contiguous().view(torch.int32)
    return ((bits + 0x1000) & ~0x1FFF).view(torch.float32)


class Arithmetic:
    """Products of tensors of one dtype; `order` is native, parts or tf32."""

    def __init__(self, dtype="fp32", order="native", parts=4):
        self.dtype, self.order, self.parts = DTYPES[dtype], order, parts

    def cast(self, x):
        return x.to(self.dtype)

    def product(self, a, b):
        """a @ b, rounded to the dtype once."""
        if self.order == "native":
            return a @ b
        if self.order == "tf32":
            return (to_tf32(a) @ to_tf32(b)).to(a.dtype)
        wide = torch.promote_types(a.dtype, torch.float32)
        inner = a.shape[-1]
        step = max(1, -(-inner // self.parts))
        total = None
        for begin in reversed(range(0, inner, step)):
            part = (a[..., begin:begin + step].to(wide)
                    @ b[..., begin:begin + step, :].to(wide))
            total = part if total is None else total + part
        return total.to(a.dtype)

    def linear(self, x, weight, bias=None):
        y = self.product(x, weight.T)
        return y if bias is None else y + bias

    def moments(self, x, axes, unbiased=False):
        """Mean and variance over `axes`, in float32 at least."""
        x = x.to(torch.promote_types(x.dtype, torch.float32))
        return (x.mean(axes, keepdim=True),
                x.var(axes, keepdim=True, unbiased=unbiased))

    def layer_norm(self, x, weight, bias, eps, unbiased=False):
        mean, var = self.moments(x, -1, unbiased)
        y = (x.to(mean.dtype) - mean) * (var + eps).rsqrt()
        return (y * weight + bias).to(x.dtype)

    def rms_norm(self, x, weight, eps):
        wide = x.to(torch.promote_types(x.dtype, torch.float32))
        square = wide.square().mean(-1, keepdim=True)
        return (wide * (square + eps).rsqrt() * weight).to(x.dtype)
