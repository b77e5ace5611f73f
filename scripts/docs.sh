#!/bin/sh
# Build the documentation site, build/docs/index.html. Arguments are passed to sphinx-build.
extras=docs
. "$(dirname "$0")/setup.sh"

python -m sphinx -b html -W --keep-going --quiet "$@" docs build/docs
echo "wrote the site to build/docs/index.html"
