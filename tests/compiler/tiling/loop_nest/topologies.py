"""Shapes of convolutions of published networks."""

from __future__ import annotations

from itertools import pairwise

from mapper.compiler.tiling.loop_nest.traffic import Convolution

THREE = (3, 3)
TWO = (2, 2)


def _conv(side: int, inputs: int, outputs: int, kernel: int = 3, stride: int = 1) -> Convolution:
    return Convolution(side, side, inputs, outputs, (kernel, kernel), (stride, stride))


def yolov2_tiny(side: int = 416) -> list[Convolution]:
    """Tiny YOLOv2 (20 classes), whose max pooling halves the map five times."""
    widths = [3, 16, 32, 64, 128, 256, 512]
    made = [_conv(side >> n, *pair) for n, pair in enumerate(pairwise(widths))]
    last = side >> 5
    return [*made, _conv(last, 512, 1024), _conv(last, 1024, 1024), _conv(last, 1024, 125, 1)]


def yolov3_tiny(side: int = 416) -> list[Convolution]:
    """Tiny YOLOv3 (80 classes), with two outputs."""
    last = side >> 5
    return [
        *yolov2_tiny(side)[:6],
        _conv(last, 512, 1024),
        _conv(last, 1024, 256, 1),
        _conv(last, 256, 512),
        _conv(last, 512, 255, 1),
        _conv(last, 256, 128, 1),
        _conv(2 * last, 384, 256),
        _conv(2 * last, 256, 255, 1),
    ]


def yolov4_tiny(width: int = 416, height: int = 416) -> list[Convolution]:
    """Tiny YOLOv4 (80 classes): three blocks, in which half of the channels take a separate
    branch."""

    def conv(part: int, inputs: int, outputs: int, kernel: int = 3, stride: int = 1) -> Convolution:
        return Convolution(
            width // part, height // part, inputs, outputs, (kernel, kernel), (stride, stride)
        )

    made = [conv(2, 3, 32, 3, 2), conv(4, 32, 64, 3, 2)]
    for part, channels in ((4, 64), (8, 128), (16, 256)):
        made += [
            conv(part, channels, channels),
            conv(part, channels // 2, channels // 2),
            conv(part, channels // 2, channels // 2),
            conv(part, channels, channels, 1),
        ]
    return [
        *made,
        conv(32, 512, 512),
        conv(32, 512, 256, 1),
        conv(32, 256, 512),
        conv(32, 512, 255, 1),
        conv(32, 256, 128, 1),
        conv(16, 384, 256),
        conv(16, 256, 255, 1),
    ]


def resnet18() -> list[Convolution]:
    """ResNet-18 at 224x224; its first kernel of 7x7x3 as 1x1 over windows of 147 values."""
    made = [_conv(112, 147, 64, 1)]
    inputs = 64
    for side, outputs in ((56, 64), (28, 128), (14, 256), (7, 512)):
        stride = 1 if outputs == inputs else 2
        made += [_conv(side, inputs, outputs, 3, stride), _conv(side, outputs, outputs)]
        if stride == 2:
            made.append(_conv(side, inputs, outputs, 1, 2))
        made += [_conv(side, outputs, outputs)] * 2
        inputs = outputs
    return made


NETWORKS = {
    "YOLOv4-tiny": yolov4_tiny,
    "YOLOv3-tiny": yolov3_tiny,
    "YOLOv2-tiny": yolov2_tiny,
    "ResNet-18": resnet18,
}
