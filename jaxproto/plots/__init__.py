"""Pictures of a run, as PNG, PDF or SVG files. Needs matplotlib: the extra `[plots]`.

Functions of arrays. The suffix of the file names its format, and within
`paper_width("column")` or `paper_width("text")` it is as wide as that of a paper.
`summary/pictures.py` draws those of a run at its end, `figures` those of finished runs.
"""

from jaxproto.plots.alignment_curve import alignment_trace
from jaxproto.plots.bars import Bar, rounds_to_target_bars
from jaxproto.plots.class_angles import angles, cosines, prototype_angles
from jaxproto.plots.class_margins import cosine_by_class, margins
from jaxproto.plots.confusion import confusion_matrices
from jaxproto.plots.curve_bands import Band, band, bands, communication_cost
from jaxproto.plots.curves import accuracy_against_bytes, accuracy_over_rounds
from jaxproto.plots.embedding import Embedded, embedding
from jaxproto.plots.head_bars import frobenius, head_norms
from jaxproto.plots.heatmaps import partition_heatmap
from jaxproto.plots.prototype_values import prototype_heatmap
from jaxproto.plots.samples import image_grid, scatter_grid
from jaxproto.plots.style import FORMATS, HINT, SIZES, available, check, paper_width
from jaxproto.plots.sweep_heatmap import grid_heatmap
from jaxproto.plots.two_dimensional import (
    FeaturePlane,
    PrototypePlane,
    features_grid,
    prototypes_2d,
)

__all__ = [
    "FORMATS",
    "HINT",
    "SIZES",
    "Band",
    "Bar",
    "Embedded",
    "FeaturePlane",
    "PrototypePlane",
    "accuracy_against_bytes",
    "accuracy_over_rounds",
    "alignment_trace",
    "angles",
    "available",
    "band",
    "bands",
    "check",
    "communication_cost",
    "confusion_matrices",
    "cosine_by_class",
    "cosines",
    "embedding",
    "features_grid",
    "frobenius",
    "grid_heatmap",
    "head_norms",
    "image_grid",
    "margins",
    "paper_width",
    "partition_heatmap",
    "prototype_angles",
    "prototype_heatmap",
    "prototypes_2d",
    "rounds_to_target_bars",
    "scatter_grid",
]
