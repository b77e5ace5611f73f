"""The report page: one self-contained HTML file made from an output folder.

`loads` keeps what was measured beside report.json, `view` makes page-sized numbers of it, `page`
puts the parts together: `figures` (numbers and tables), `chipmap` (the chip), `charts` (curves).
"""
