"""Mappings as Parquet: the columns of the csv, the chip in the metadata. Needs pyarrow.

neuron, id and size are int64; core, x and y int32. The metadata `mapper.chip` has the fields of the
chip as JSON. Relay neurons of split neurons and synapses are omitted.
"""

from __future__ import annotations

import io
import json
from importlib import import_module
from pathlib import Path
from typing import Any

from mapper.exports.base import MappedRun
from storage.extras import require
from storage.files import write_file

ROWS = 1 << 20
"""Rows per row group."""


def save(run: MappedRun, destination: Path, options: dict[str, Any]) -> dict[str, Any]:
    """Write the table."""
    parquet = require("pyarrow.parquet", "formats", destination, "Parquet files")
    arrow = import_module("pyarrow")
    columns = run.columns()
    about = {"mapper.chip": json.dumps(run.chip.to_json())}
    table = arrow.table(columns).replace_schema_metadata(about)
    buffer = io.BytesIO()
    parquet.write_table(table, buffer, row_group_size=ROWS)
    write_file(destination, buffer.getvalue())
    return {"neurons": run.core.size, "columns": list(columns)}
