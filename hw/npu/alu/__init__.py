"""The ALU: lanes and their arithmetic."""
