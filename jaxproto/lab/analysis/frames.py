"""Printed tables as pandas data frames."""

import pandas as pd

from jaxproto.summary.table_formats import TableView


def data_frame(view: TableView) -> pd.DataFrame:
    """Returns the rows of a table, with its notes in `frame.attrs["notes"]`."""
    frame = pd.DataFrame(view.rows, columns=[*view.head])
    frame.attrs["notes"] = view.notes
    return frame
