"""Program of a core: image, instructions, tables, links and inputs of its steps."""
