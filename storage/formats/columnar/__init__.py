"""Networks as binary columns: npz, Parquet, ParHIP."""
