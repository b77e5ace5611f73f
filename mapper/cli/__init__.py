"""Sub-commands, one module each: ``EPILOG``, ``add_arguments(parser)`` and ``run(options)``.

`import_` has an underscore because `import` is a keyword. Slow imports are inside `run`, to keep
`--help` fast.
"""
