"""Random-access reads of files and of objects in stores."""
