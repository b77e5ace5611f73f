#!/bin/sh
# The documentation as a site, build/docs/index.html. Arguments go to sphinx-build.
extras=docs
. "$(dirname "$0")/setup.sh"

python -m sphinx -b html -W --keep-going --quiet "$@" docs build/docs
echo "left in build/docs: index.html and the rest of the site"
