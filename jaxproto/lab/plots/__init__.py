"""Pictures of arrays as PNG, PDF or SVG files; they need the extra `[plots]`.

`jaxproto/lab/figures` computes the arrays from runs. The suffix of the file names
its format. Inside `paper_width("column")` or `paper_width("text")` a picture is as wide
as a column or the text of a paper. Docstrings cite the papers N (ProtoNorm), T
(TinyProto), S (CPS + PPA + CPKD) and R (RefProtoFL).
"""

from jaxproto.lab.plots.alignment_curve import alignment_trace
from jaxproto.lab.plots.bars import Bar, rounds_to_target_bars
from jaxproto.lab.plots.class_geometry import (
    angles,
    cosine_by_class,
    cosines,
    margins,
    prototype_angles,
)
from jaxproto.lab.plots.curve_bands import Band, band, bands, communication_cost
from jaxproto.lab.plots.curves import (
    accuracy_against_bytes,
    accuracy_against_seconds,
    accuracy_over_rounds,
)
from jaxproto.lab.plots.heatmaps import (
    confusion_matrices,
    frobenius,
    grid_heatmap,
    head_norms,
    partition_heatmap,
)
from jaxproto.lab.plots.prototype_values import prototype_heatmap
from jaxproto.lab.plots.samples import image_grid, scatter_grid
from jaxproto.lab.plots.style import FORMATS, HINT, SIZES, available, check, paper_width
from jaxproto.lab.plots.two_dimensional import (
    Embedded,
    Plane,
    embedding,
    features_grid,
    prototype_plane,
    prototypes_2d,
)
