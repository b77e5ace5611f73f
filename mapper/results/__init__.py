"""The results of a run: output folder, mapping, report, and loads of cores and links."""
