"""What a run leaves: the output folder, the mapping, the report and the loads of the chip."""
