"""Pictures of a run, as PNG files. Needs matplotlib: the extra `[plots]`.

Functions of arrays. `report/pictures.py` draws those of a run at its end, `figures`
those of finished runs.
"""

from jaxproto.plots.canvas import HINT, available
from jaxproto.plots.classes import cosine_by_class, margins
from jaxproto.plots.curves import accuracy_against_bytes, accuracy_over_rounds
from jaxproto.plots.embedding import Embedded, embedding
from jaxproto.plots.grid import grid_heatmap
from jaxproto.plots.heatmaps import (
    cosine_similarity,
    cosines,
    frobenius,
    head_norm_difference,
    head_norms,
    partition_heatmap,
    prototype_angles,
    prototype_heatmap,
)
from jaxproto.plots.planes import Plane, features_2d, features_grid, prototypes_2d
from jaxproto.plots.samples import image_grid, scatter_grid
from jaxproto.plots.several import Band, band, bands, communication_cost
from jaxproto.plots.trace import alignment_trace

__all__ = [
    "HINT",
    "Band",
    "Embedded",
    "Plane",
    "accuracy_against_bytes",
    "accuracy_over_rounds",
    "alignment_trace",
    "available",
    "band",
    "bands",
    "communication_cost",
    "cosine_by_class",
    "cosine_similarity",
    "cosines",
    "embedding",
    "features_2d",
    "features_grid",
    "frobenius",
    "grid_heatmap",
    "head_norm_difference",
    "head_norms",
    "image_grid",
    "margins",
    "partition_heatmap",
    "prototype_angles",
    "prototype_heatmap",
    "prototypes_2d",
    "scatter_grid",
]
