"""Convolutions and residual blocks as torchvision has them, for several kinds."""

from torch import nn


def conv(inner, outer, size=3, stride=1, bias=False):
    return nn.Conv2d(inner, outer, size, stride, size // 2, bias=bias)


class BasicBlock(nn.Module):
    """As in torchvision."""

    def __init__(self, inner, outer, stride=1):
        super().__init__()
        self.conv1, self.bn1 = conv(inner, outer, 3, stride), \
            nn.BatchNorm2d(outer)
        self.relu = nn.ReLU(inplace=True)
        self.conv2, self.bn2 = conv(outer, outer), nn.BatchNorm2d(outer)
        self.downsample = None if stride == 1 and inner == outer else \
            nn.Sequential(conv(inner, outer, 1, stride),
                          nn.BatchNorm2d(outer))

    def forward(self, x):
        out = self.bn2(self.conv2(self.relu(self.bn1(self.conv1(x)))))
        return self.relu(out + (x if self.downsample is None
                                else self.downsample(x)))


def kaiming(model):
    for m in model.modules():
        if isinstance(m, nn.Conv2d):
            nn.init.kaiming_normal_(m.weight, mode="fan_out",
                                    nonlinearity="relu")
    return model
