"""One module for each sub-command: ``EPILOG``, ``add_arguments(parser)`` and ``run(options)``.

Modules end in an underscore because `import` is a keyword. Heavy imports are inside `run`, so
that help texts answer at once.
"""
