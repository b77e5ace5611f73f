"""Bytes that are read in pieces: of files, and of objects in stores."""
