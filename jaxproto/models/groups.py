"""Groups of networks by name.

Client i has entry i mod n of a group of n. An entry may have options, which
`registry.factory` reads. N is ProtoNorm, T is TinyProto (docs/glossary.md).
"""

SMALL = ("resnet4", "resnet6", "resnet8", "resnet10")
DEEP = ("resnet18", "resnet34", "resnet50", "resnet101", "resnet152")
IMG_8 = ("cnn4", "googlenet", "mobilenet_v2", *DEEP)
HEADS = ("", "+head=512", "+head=256", "+head=128")  # HtFLlib's four heads
HARCNN = tuple(f"harcnn+layers={n}+stride={s}" for n in (2, 1, 3) for s in (1, 2, 3))
MLP_LAYERS = tuple(
    f"amazon_mlp+hidden={n}" for n in ("500", "1000-500", "1000-500-200")
)


def transformers(*sizes: tuple[int, int]) -> tuple[str, ...]:
    """Returns names of transformers of the given numbers of layers and heads."""
    return tuple(f"transformer+layers={n}+heads={heads}" for n, heads in sizes)


BUILTIN: dict[str, tuple[str, ...]] = {
    # Lightweight networks of both papers' heterogeneous setting, in the code's order
    "Ht0": ("resnet8", "mobilenet_v2", "shufflenet_v2_x1_0", "efficientnet_b0"),
    # Ht0 with dropout where the released code has it
    "Ht0_code": (
        "resnet8",
        "mobilenet_v2_code",
        "shufflenet_v2_x1_0",
        "efficientnet_b0_code",
    ),
    "HmCNN": ("cnn4",),  # N Table 3
    "HmRes18": ("resnet18",),  # N Table 3
    "digits": ("mlp", "cnn4_d", "resnet4", "resnet6"),  # ours: light, 8x8 pixels
    "light": ("cnn4", "resnet4", "resnet6", "resnet8"),  # ours: 28 or 32 pixels
    "text": ("fasttext", "textcnn"),  # T 5.1, AG News
    "text_code": ("fasttext_code", "textcnn_code"),  # as released
    # HtFLlib's, under its names: images, texts, sensors, numbers
    "HtFE-img-2": ("cnn4", "resnet18"),
    "HtFE-img-3": ("resnet10", "resnet18", "resnet34"),
    "HtFE-img-4": ("cnn4", "googlenet", "mobilenet_v2", "resnet18"),
    "HtFE-img-5": ("googlenet", "mobilenet_v2", "resnet18", "resnet34", "resnet50"),
    "HtFE-img-8": IMG_8,
    "HtFE-img-9": (*SMALL, *DEEP),
    "HtFE-img-8-HtC-img-4": tuple(map("".join, zip(IMG_8, 2 * HEADS, strict=True))),
    "Res34-HtC-img-4": tuple(f"resnet34{head}" for head in HEADS),
    "HtM-img-10": (*IMG_8, "vit_b_16", "vit_b_32"),
    "HtFE-txt-2": ("fasttext", "text_logistic"),
    "HtFE-txt-4": ("fasttext", "text_logistic", "lstm", "bilstm"),
    "HtFE-txt-5-1": transformers(*((n, 8) for n in (1, 2, 4, 8, 16))),
    "HtFE-txt-5-2": transformers(*((4, n) for n in (1, 2, 4, 8, 16))),
    "HtFE-txt-5-3": transformers(*((n, n) for n in (1, 2, 4, 8, 16))),
    "HtFE-txt-6": (
        *("fasttext", "lstm", "bilstm", *transformers((2, 8))),
        *("text_logistic", "gru"),
    ),
    "HtFE-sen-2": HARCNN[:2],
    "HtFE-sen-3": HARCNN[:3],
    "HtFE-sen-5": (*HARCNN[:4], HARCNN[6]),
    "HtFE-sen-8": HARCNN[:8],
    "MLPs": ("amazon_mlp", *MLP_LAYERS),
    "MLP_1layer": ("amazon_mlp+hidden=200", "amazon_mlp+hidden=500"),
    "MLP_layers": MLP_LAYERS,
}
