"""PyTorch models as their users write them, run in an environment that has PyTorch (`test_frameworks.py`)."""

import torch
import torch.nn.functional as F
from torch import nn


class Plain(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc1 = nn.Linear(28 * 28, 40)
        self.fc2 = nn.Linear(40, 40, bias=False)
        self.out = nn.Linear(40, 10)
        self.drop = nn.Dropout(0.5)

    def forward(self, x):
        x = x.view(x.size(0), -1)
        x = self.drop(F.relu(self.fc1(x)))
        x = torch.tanh(self.fc2(x))
        return self.out(F.dropout(x, training=self.training))


class RMSNorm(nn.Module):
    """As many write it by hand."""

    def __init__(self, width, eps=1e-6):
        super().__init__()
        self.weight, self.eps = nn.Parameter(torch.ones(width)), eps

    def forward(self, x):
        return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + self.eps) * self.weight


class Block(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.norm = RMSNorm(width)
        self.mlp = nn.Sequential(nn.Linear(width, 2 * width), nn.GELU(), nn.Linear(2 * width, width), nn.Dropout(0.1))

    def forward(self, x):
        return x + self.mlp(self.norm(x))


class PreNorm(nn.Module):
    def __init__(self, depth=3, width=24):
        super().__init__()
        self.embed = nn.Linear(5, width)
        self.blocks = nn.ModuleList(Block(width) for _ in range(depth))
        self.head = nn.Sequential(nn.LayerNorm(width), nn.Linear(width, 2))

    def forward(self, x):
        x = self.embed(x)
        for block in self.blocks:
            x = block(x)
        return self.head(x)


class PostNorm(nn.Module):
    def __init__(self, width=24):
        super().__init__()
        self.embed = nn.Linear(5, width)
        self.up, self.down = nn.Linear(width, 48), nn.Linear(48, width)
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width, eps=1e-3)
        self.head = nn.Linear(width, 1)

    def forward(self, x):
        x = self.norm1(self.embed(x))
        residual = x
        x = self.down(F.silu(self.up(x)))
        x = self.norm2(residual + 0.5 * x)
        return self.head(x).squeeze(-1)


def deep():
    layers = [nn.Linear(6, 16), nn.LeakyReLU(0.1)]
    for _ in range(18):
        layers += [nn.Linear(16, 16), nn.LeakyReLU(0.1)]
    return nn.Sequential(*layers, nn.Linear(16, 4))


def convolutional():
    return nn.Sequential(
        nn.Conv2d(2, 8, 3, padding=1),
        nn.BatchNorm2d(8),
        nn.ReLU(),
        nn.AvgPool2d(2),
        nn.Conv2d(8, 6, 3),
        nn.ReLU(),
        nn.Flatten(),
        nn.Linear(24, 3),
    )


class Wave(nn.Module):
    def forward(self, x):
        return torch.cos(x)


class Squared(nn.Module):
    def forward(self, x):
        return F.relu(x) ** 2


class ByTanh(nn.Module):
    def forward(self, x):
        return F.gelu(x, approximate="tanh")


def functions():
    """Activations that are expressions of z here."""
    found = []
    for one in (nn.GELU(approximate="tanh"), nn.ReLU6(), nn.Hardswish(), Wave(), Squared(), ByTanh()):
        found += [nn.Linear(6, 6), one]
    return nn.Sequential(*found, nn.Linear(6, 2))


class Moved(nn.Module):
    """Axes in another order, entries in the order of channels first behind Flatten, a factor at the end."""

    def __init__(self):
        super().__init__()
        self.conv, self.norm, self.slope = nn.Conv2d(2, 3, (2, 3)), nn.BatchNorm1d(24), nn.PReLU()
        self.fc, self.out = nn.Linear(24, 8), nn.Linear(8, 3)

    def forward(self, x):
        x = self.slope(self.norm(self.conv(x.transpose(2, 3)).flatten(1)))
        x = F.softplus(self.fc(x), 1, 1)
        return 3 * torch.tanh(self.out(x) / 3)


class ChannelsLast(nn.Module):
    """A vector of channels last first of all, then what changes in place and is used no more."""

    def __init__(self):
        super().__init__()
        self.fc, self.inner, self.out = nn.Linear(40, 8), nn.Linear(8, 8), nn.Linear(8, 1)

    def forward(self, x):
        x = self.fc(x.permute(0, 2, 3, 1).flatten(1))
        x = x + self.inner(F.relu(x))
        return self.out(F.relu(x, inplace=True).clamp(0.05, 50)).squeeze(-1)


class ByAxis(nn.Module):
    """A norm by hand with NumPy's names of arguments, which PyTorch understands; further inputs are not used."""

    def __init__(self):
        super().__init__()
        self.fc, self.out = nn.Linear(6, 8), nn.Linear(8, 2)

    def forward(self, x, *args, **kwargs):
        x = self.fc(x)
        x = x - x.mean(axis=-1, keepdims=True)
        return self.out(x / torch.sqrt((x * x).mean(axis=-1, keepdims=True) + 1e-5))


def hooked():
    """A layer whose outputs another function changes."""
    model = nn.Sequential(nn.Linear(3, 4), nn.ReLU(), nn.Linear(4, 2))
    model[0].register_forward_hook(lambda layer, given, found: 2 * found)
    return model


MODELS = {
    "by axis": (ByAxis, (6,)),
    "moved axes": (Moved, (2, 4, 5)),
    "channels last": (ChannelsLast, (2, 4, 5)),
    "functions": (functions, (6,)),
    "plain": (Plain, (1, 28, 28)),
    "pre-norm": (PreNorm, (5,)),
    "post-norm": (PostNorm, (5,)),
    "20 layers": (deep, (6,)),
    "convolutional": (convolutional, (2, 8, 8)),
}


def made(name):
    """The model with parameters that have learned something, inputs, and what it gives."""
    torch.manual_seed(0)
    make, shape = MODELS[name]
    model = make()
    with torch.no_grad():
        for tensor in [*model.parameters(), *model.buffers()]:
            if tensor.is_floating_point():
                tensor += 0.1 * torch.randn(tensor.shape).abs()
        x = torch.randn(4, *shape)
        model.eval()
        outputs = model(x)
        model.train()
    return model, x.numpy(), outputs.numpy()


class Branching(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(3, 3)

    def forward(self, x):
        return self.fc(x) if x.sum() > 0 else x


class Two(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(3, 3)

    def forward(self, x, mask):
        return self.fc(x) * mask


class Attention(nn.Module):
    """As many write it by hand; the number of its inputs cannot be read off."""

    def __init__(self):
        super().__init__()
        self.embed, self.qkv = nn.Linear(8, 8), nn.Linear(8, 24)

    def forward(self, x):
        inputs, length, width = x.shape
        q, k, v = self.qkv(self.embed(x)).split(width, dim=-1)
        q, k, v = (part.view(inputs, length, 2, 4).transpose(1, 2) for part in (q, k, v))
        return torch.softmax(q @ k.transpose(-2, -1) / 2, dim=-1) @ v


class Fused(nn.Module):
    def __init__(self):
        super().__init__()
        self.q = nn.Linear(8, 8)

    def forward(self, x):
        return F.scaled_dot_product_attention(self.q(x), x, x)


class Activated(nn.Module):
    """Residual branches that end in an activation."""

    def __init__(self):
        super().__init__()
        self.embed, self.inner, self.last = nn.Linear(5, 8), nn.Linear(8, 8), nn.Linear(8, 2)

    def forward(self, x):
        x = self.embed(x)
        return self.last(x + torch.tanh(self.inner(x)))


class Assigned(nn.Module):
    """A sum in place, of which the skip knows."""

    def __init__(self):
        super().__init__()
        self.first, self.inner, self.last = nn.Linear(5, 8), nn.Linear(8, 8), nn.Linear(8, 2)

    def forward(self, x):
        x = self.first(x)
        before = x
        x += self.inner(torch.relu(x))
        return self.last(before)


class InPlace(nn.Module):
    """A skip around an activation that changes what is skipped."""

    def __init__(self):
        super().__init__()
        self.first, self.inner, self.last = nn.Linear(5, 8), nn.Linear(8, 8), nn.Linear(8, 2)
        self.act = nn.ReLU(inplace=True)

    def forward(self, x):
        x = self.first(x)
        return self.last(x + self.inner(self.act(x)))


class Centred(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(3, 4)

    def forward(self, x):
        x = self.fc(x)
        return x - x.mean(-1, keepdim=True)


class Whole(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(3, 4)

    def forward(self, x):
        return self.fc(x).to(torch.int32).to(torch.float32)


class Named(nn.Module):
    """Outputs by their names."""

    def __init__(self):
        super().__init__()
        self.fc, self.out = nn.Linear(3, 4), nn.Linear(4, 2)

    def forward(self, x):
        x = self.fc(x)
        return {"features": x, "logits": self.out(torch.relu(x))}


class Standardized(nn.Module):
    """Inputs less a mean of the data."""

    def __init__(self):
        super().__init__()
        self.register_buffer("mean", torch.arange(3.0))
        self.fc = nn.Linear(3, 4)

    def forward(self, x):
        return self.fc(x - self.mean)


BAD = {
    "returns 2 arrays": Named,
    "holds sub, which is not among the layers that can be read: mean stands where no weights": Standardized,
    "a mean over entries that is subtracted without a norm": Centred,
    "add whose result is not used": Assigned,
    "the skip starts at activations": InPlace,
    "a conversion to torch.int32": Whole,
    "weight is computed from something else": lambda: nn.utils.weight_norm(nn.Linear(3, 4)),
    "a divisor of its own": lambda: nn.Sequential(nn.Conv2d(1, 2, 3), nn.AvgPool2d(2, divisor_override=3)),
    "holds attention, a softmax over a product of two": Attention,
    "holds attention": lambda: nn.Sequential(nn.Linear(8, 8), Fused()),
    "branch ends in the activation tanh (after inner)": Activated,
    "holds Softmax": lambda: nn.Sequential(nn.Linear(3, 4), nn.Softmax(-1)),
    "values of what it computes": Branching,
    "MaxPool2d (in 1)": lambda: nn.Sequential(nn.Conv2d(1, 2, 3), nn.MaxPool2d(2)),
    "GroupNorm (in 1)": lambda: nn.Sequential(nn.Linear(3, 4), nn.GroupNorm(2, 4)),
    "takes mask": Two,
    "LSTM": lambda: nn.LSTM(3, 4),
    "TransformerEncoderLayer": lambda: nn.TransformerEncoderLayer(8, 2),
}
