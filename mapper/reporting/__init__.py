"""The report page: one self-contained HTML file made from an output folder.

`view` scales the measured loads to page-sized numbers, `page` assembles the page from `figures`
(numbers and tables), `chipmap` (the chip) and `charts` (curves).
"""
