"""Networks as text: edge lists, METIS, hMETIS, Matrix Market, GraphML, QAPLIB."""
