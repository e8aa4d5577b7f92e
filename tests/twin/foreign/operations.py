"""Operations of tinygrad and what numpy says they give: name -> (inputs, in tinygrad, in numpy)."""
import numpy as np

RNG = np.random.default_rng(7)


def f(*shape, low=-2.0, high=2.0):
    return RNG.uniform(low, high, shape).astype(np.float32)


def i(*shape, low=-100, high=100, dtype=np.int32):
    return RNG.integers(low, high, shape).astype(dtype)


def b(*shape):
    return RNG.integers(0, 2, shape).astype(bool)


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def softmax(x):
    e = np.exp(x - x.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


def conv(x, w, stride=1, pad=0, groups=1):
    x = np.pad(x, ((0, 0), (0, 0), (pad, pad), (pad, pad)))
    n, _, h, wd = x.shape
    o, c, kh, kw = w.shape
    oh, ow = (h - kh) // stride + 1, (wd - kw) // stride + 1
    out = np.zeros((n, o, oh, ow), np.float32)
    for k in range(o):
        first = k // (o // groups) * c
        for y in range(oh):
            for z in range(ow):
                part = x[:, first:first + c, y * stride:y * stride + kh, z * stride:z * stride + kw]
                out[:, k, y, z] = (part * w[k]).sum((1, 2, 3))
    return out


def pool(x, k, how):
    n, c, h, w = x.shape
    return how(how(x.reshape(n, c, h // k, k, w // k, k), 5), 3)


def unary(name, numpy, low=-2.0, high=2.0):
    return name, ((f(3, 67, low=low, high=high),), lambda x, n=name: getattr(x, n)(), numpy)


OPERATIONS = dict([
    # One value each.
    unary("neg", np.negative), unary("abs", np.abs), unary("exp", np.exp), unary("exp2", np.exp2),
    unary("log", np.log, 0.01, 9), unary("log2", np.log2, 0.01, 9), unary("sqrt", np.sqrt, 0, 9),
    unary("rsqrt", lambda x: 1 / np.sqrt(x), 0.1, 9), unary("reciprocal", lambda x: 1 / x, 0.1, 3),
    unary("sin", np.sin, -20, 20), unary("cos", np.cos, -20, 20), unary("tan", np.tan, -1, 1),
    unary("sinh", np.sinh), unary("cosh", np.cosh), unary("tanh", np.tanh),
    unary("asin", np.arcsin, -0.9, 0.9), unary("acos", np.arccos, -0.9, 0.9), unary("atan", np.arctan),
    unary("sigmoid", sigmoid), unary("relu", lambda x: np.maximum(x, 0)), unary("sign", np.sign),
    unary("relu6", lambda x: np.clip(x, 0, 6), -9, 9), unary("silu", lambda x: x * sigmoid(x)),
    unary("softplus", lambda x: np.log1p(np.exp(x))), unary("square", np.square),
    unary("elu", lambda x: np.where(x > 0, x, np.exp(x) - 1)),
    unary("leaky_relu", lambda x: np.where(x > 0, x, 0.01 * x)),
    unary("hardswish", lambda x: x * np.clip(x + 3, 0, 6) / 6, -5, 5),
    unary("softsign", lambda x: x / (1 + np.abs(x))), unary("floor", np.floor, -9, 9),
    unary("mish", lambda x: x * np.tanh(np.log1p(np.exp(x)))),
    unary("ceil", np.ceil, -9, 9), unary("trunc", np.trunc, -9, 9), unary("round", np.round, -9, 9),
    unary("erf", lambda x: np.vectorize(__import__("math").erf)(x).astype(np.float32)),
    unary("gelu", lambda x: 0.5 * x * (1 + np.tanh(0.7978845608 * (x + 0.044715 * x**3)))),
    unary("logsigmoid", lambda x: -np.log1p(np.exp(-x))),
    unary("isnan", np.isnan), unary("isinf", np.isinf),
    # Two and three values.
    ("add", ((f(45, 3), f(45, 3)), lambda x, y: x + y, np.add)),
    ("sub", ((f(45, 3), f(45, 3)), lambda x, y: x - y, np.subtract)),
    ("mul", ((f(45, 3), f(45, 3)), lambda x, y: x * y, np.multiply)),
    ("div", ((f(45, 3), f(45, 3, low=0.5)), lambda x, y: x / y, np.divide)),
    ("pow", ((f(45, low=0.1), f(45)), lambda x, y: x**y, np.power)),
    ("maximum", ((f(45), f(45)), lambda x, y: x.maximum(y), np.maximum)),
    ("minimum", ((f(45), f(45)), lambda x, y: x.minimum(y), np.minimum)),
    ("broadcast", ((f(5, 1, 7), f(3, 1)), lambda x, y: x * y + x, lambda x, y: x * y + x)),
    ("where", ((b(90), f(90), f(90)), lambda c, x, y: c.where(x, y), np.where)),
    ("lerp", ((f(33), f(33)), lambda x, y: x.lerp(y, 0.3), lambda x, y: x + (y - x) * 0.3)),
    ("less", ((f(70), f(70)), lambda x, y: x < y, np.less)),
    ("greater equal", ((i(70), i(70)), lambda x, y: x >= y, np.greater_equal)),
    ("equal", ((i(70, high=-90), i(70, high=-90)), lambda x, y: x == y, np.equal)),
    ("not equal", ((i(70, high=-90), i(70, high=-90)), lambda x, y: x != y, np.not_equal)),
    ("clamp", ((f(99),), lambda x: x.clamp(-1, 1), lambda x: np.clip(x, -1, 1))),
    # Integers.
    ("int add", ((i(70), i(70)), lambda x, y: x + y, np.add)),
    ("int mul", ((i(70), i(70)), lambda x, y: x * y, np.multiply)),
    ("int div", ((i(70), i(70, low=1)), lambda x, y: x // y, np.floor_divide)),
    ("int mod", ((i(70), i(70, low=1)), lambda x, y: x % y, np.mod)),
    ("int64 mul", ((i(70, dtype=np.int64) * 10**10, i(70, dtype=np.int64)), lambda x, y: x * y, np.multiply)),
    ("int64 div", ((i(70, dtype=np.int64) * 10**12, i(70, low=1, dtype=np.int64) * 7919),
                   lambda x, y: x // y, np.floor_divide)),
    ("uint8 add", ((i(70, low=0, dtype=np.uint8), i(70, low=0, dtype=np.uint8)), lambda x, y: x + y, np.add)),
    ("int16 mul", ((i(70, dtype=np.int16), i(70, dtype=np.int16)), lambda x, y: x * y, np.multiply)),
    ("int8 neg", ((i(70, dtype=np.int8),), lambda x: -x, np.negative)),
    ("and", ((i(70), i(70)), lambda x, y: x & y, np.bitwise_and)),
    ("or", ((i(70), i(70)), lambda x, y: x | y, np.bitwise_or)),
    ("xor", ((i(70), i(70)), lambda x, y: x ^ y, np.bitwise_xor)),
    ("not", ((i(70),), lambda x: ~x, np.invert)),
    ("shift left", ((i(70, low=0),), lambda x: x << 5, lambda x: x << 5)),
    ("shift right", ((i(70, low=0, high=10**6, dtype=np.uint32),), lambda x: x >> 5, lambda x: x >> 5)),
    ("logical not", ((b(70),), lambda x: x.logical_not(), np.logical_not)),
    # Other types of numbers.
    ("half add", ((f(70).astype(np.float16), f(70).astype(np.float16)), lambda x, y: x + y, np.add)),
    ("half exp", ((f(70).astype(np.float16),), lambda x: x.exp(), np.exp)),
    ("half sum", ((f(7, 70).astype(np.float16),), lambda x: x.sum(1), lambda x: x.astype(np.float32).sum(1))),
    ("double fma", ((f(70).astype(np.float64), f(70).astype(np.float64)), lambda x, y: x * y + x, lambda x, y: x * y + x)),
    ("double sqrt", ((f(70, low=0).astype(np.float64),), lambda x: x.sqrt(), np.sqrt)),
    ("double sum", ((f(8, 70).astype(np.float64),), lambda x: x.sum(0), lambda x: x.sum(0))),
    ("bfloat16", ((f(70),), lambda x: (x.cast("bfloat16") * 2).float(),
                  lambda x: 2 * ((x.view(np.uint32) + 0x7fff + (x.view(np.uint32) >> 16 & 1)) & 0xffff0000).view(np.float32))),
    ("float to int", ((f(70, low=-99, high=99),), lambda x: x.int(), lambda x: x.astype(np.int32))),
    ("int to float", ((i(70),), lambda x: x.float(), lambda x: x.astype(np.float32))),
    ("float to half", ((f(70),), lambda x: x.half(), lambda x: x.astype(np.float16))),
    ("int to int8", ((i(70, low=-999, high=999),), lambda x: x.cast("int8"), lambda x: x.astype(np.int8))),
    ("bitcast", ((f(70),), lambda x: x.bitcast("int32"), lambda x: x.view(np.int32))),
    # Reductions.
    ("sum", ((f(37, 129),), lambda x: x.sum(), lambda x: x.sum())),
    ("sum rows", ((f(37, 129),), lambda x: x.sum(1), lambda x: x.sum(1))),
    ("sum columns", ((f(37, 129),), lambda x: x.sum(0), lambda x: x.sum(0))),
    ("mean", ((f(37, 129),), lambda x: x.mean(1), lambda x: x.mean(1))),
    ("max", ((f(37, 129),), lambda x: x.max(1), lambda x: x.max(1))),
    ("min", ((f(37, 129),), lambda x: x.min(0), lambda x: x.min(0))),
    ("prod", ((f(9, 7),), lambda x: x.prod(1), lambda x: x.prod(1))),
    ("argmax", ((f(9, 77),), lambda x: x.argmax(1), lambda x: x.argmax(1))),
    ("argmin", ((f(9, 77),), lambda x: x.argmin(1), lambda x: x.argmin(1))),
    ("any", ((b(9, 7),), lambda x: x.any(1), lambda x: x.any(1))),
    ("all", ((b(9, 2),), lambda x: x.all(1), lambda x: x.all(1))),
    ("var", ((f(9, 77),), lambda x: x.var(1), lambda x: x.var(1, ddof=1))),
    ("std", ((f(9, 77),), lambda x: x.std(1), lambda x: x.std(1, ddof=1))),
    ("softmax", ((f(9, 77),), lambda x: x.softmax(), softmax)),
    ("log softmax", ((f(9, 77),), lambda x: x.log_softmax(), lambda x: np.log(softmax(x)))),
    ("logsumexp", ((f(9, 77),), lambda x: x.logsumexp(1), lambda x: np.log(np.exp(x).sum(1)))),
    ("layernorm", ((f(9, 77),), lambda x: x.layernorm(),
                   lambda x: (x - x.mean(1, keepdims=True)) / np.sqrt(x.var(1, keepdims=True) + 1e-5))),
    ("int sum", ((i(37, 129),), lambda x: x.sum(1), lambda x: x.sum(1))),
    ("cumsum", ((f(5, 70),), lambda x: x.cumsum(1), lambda x: x.cumsum(1))),
    ("cumprod", ((f(5, 20),), lambda x: x.cumprod(1), lambda x: x.cumprod(1))),
    ("cummax", ((f(5, 70),), lambda x: x.cummax(1)[0], lambda x: np.maximum.accumulate(x, 1))),
    # Shapes.
    ("transpose", ((f(9, 17),), lambda x: x.T.contiguous(), lambda x: x.T)),
    ("permute", ((f(3, 4, 5),), lambda x: x.permute(2, 0, 1).contiguous(), lambda x: x.transpose(2, 0, 1))),
    ("flip", ((f(9, 17),), lambda x: x.flip(1).contiguous(), lambda x: x[:, ::-1])),
    ("slice", ((f(19, 17),), lambda x: x[3:15:2, 1:-2].contiguous(), lambda x: x[3:15:2, 1:-2])),
    ("pad", ((f(3, 4),), lambda x: x.pad(((1, 2), (0, 3))), lambda x: np.pad(x, ((1, 2), (0, 3))))),
    ("cat", ((f(3, 4), f(5, 4)), lambda x, y: x.cat(y), lambda x, y: np.concatenate([x, y]))),
    ("stack", ((f(3, 4), f(3, 4)), lambda x, y: x.stack(y, dim=1), lambda x, y: np.stack([x, y], 1))),
    ("repeat", ((f(3, 4),), lambda x: x.repeat(2, 3).contiguous(), lambda x: np.tile(x, (2, 3)))),
    ("roll", ((f(30),), lambda x: x.roll(7, 0), lambda x: np.roll(x, 7))),
    ("tril", ((f(9, 9),), lambda x: x.tril(), np.tril)),
    ("gather", ((f(9, 5), i(4, 5, low=0, high=9)), lambda x, k: x.gather(0, k), lambda x, k: np.take_along_axis(x, k, 0))),
    ("index", ((f(9, 5), i(12, low=0, high=9)), lambda x, k: x[k], lambda x, k: x[k])),
    ("one hot", ((i(12, low=0, high=9),), lambda k: k.one_hot(9), lambda k: np.eye(9)[k])),
    ("sort", ((f(3, 32),), lambda x: x.sort()[0], lambda x: np.sort(x))),
    ("topk", ((f(3, 32),), lambda x: x.topk(5)[0], lambda x: -np.sort(-x)[:, :5])),
    ("arange", ((), lambda: __import__("tinygrad").Tensor.arange(300), lambda: np.arange(300))),
    ("eye", ((), lambda: __import__("tinygrad").Tensor.eye(20), lambda: np.eye(20))),
    ("full", ((), lambda: __import__("tinygrad").Tensor.full((300,), 3.5).contiguous(), lambda: np.full(300, 3.5))),
    # Products.
    ("matmul", ((f(45, 33), f(33, 21)), lambda x, y: x @ y, np.matmul)),
    ("matmul half", ((f(32, 64).astype(np.float16), f(64, 32).astype(np.float16)),
                     lambda x, y: x.matmul(y, dtype="float32"), lambda x, y: x.astype(np.float32) @ y.astype(np.float32))),
    ("matmul int8", ((i(16, 32, dtype=np.int8), i(32, 16, dtype=np.int8)),
                     lambda x, y: x.int() @ y.int(), lambda x, y: x.astype(np.int32) @ y.astype(np.int32))),
    ("batched matmul", ((f(3, 9, 20), f(3, 20, 7)), lambda x, y: x @ y, np.matmul)),
    ("dot", ((f(300), f(300)), lambda x, y: x.dot(y), np.dot)),
    ("outer", ((f(30), f(20)), lambda x, y: x.reshape(30, 1) * y, np.outer)),
    ("einsum", ((f(3, 9, 20), f(3, 20, 7)), lambda x, y: __import__("tinygrad").Tensor.einsum("bij,bjk->bk", x, y),
                lambda x, y: np.einsum("bij,bjk->bk", x, y))),
    ("linear", ((f(9, 20), f(20, 7), f(7)), lambda x, w, c: x.linear(w, c), lambda x, w, c: x @ w + c)),
    ("conv", ((f(2, 3, 9, 9), f(4, 3, 3, 3)), lambda x, w: x.conv2d(w), conv)),
    ("conv stride", ((f(1, 3, 11, 11), f(4, 3, 3, 3)), lambda x, w: x.conv2d(w, stride=2, padding=1), lambda x, w: conv(x, w, 2, 1))),
    ("conv groups", ((f(1, 4, 9, 9), f(4, 2, 3, 3)), lambda x, w: x.conv2d(w, groups=2), lambda x, w: conv(x, w, groups=2))),
    ("max pool", ((f(2, 3, 8, 8),), lambda x: x.max_pool2d(2), lambda x: pool(x, 2, np.max))),
    ("average pool", ((f(2, 3, 8, 8),), lambda x: x.avg_pool2d(2), lambda x: pool(x, 2, np.mean))),
    ("attention", ((f(2, 9, 16), f(2, 9, 16), f(2, 9, 16)), lambda q, k, v: q.scaled_dot_product_attention(k, v),
                   lambda q, k, v: softmax(q @ k.transpose(0, 2, 1) / 4) @ v)),
    ("cross entropy", ((f(9, 10), i(9, low=0, high=10)), lambda x, y: x.sparse_categorical_crossentropy(y),
                       lambda x, y: -np.log(softmax(x))[np.arange(9), y].mean())),
])

# A short run takes these: one of each kind of kernel.
SHORT = [
    "exp", "sin", "sqrt", "div", "where", "int div", "int64 div", "int8 neg", "half exp", "double fma", "bfloat16",
    "float to int", "sum", "sum rows", "argmax", "softmax", "cumsum", "transpose", "pad", "gather", "sort", "matmul",
    "matmul half", "matmul int8", "conv", "max pool", "attention",
]
