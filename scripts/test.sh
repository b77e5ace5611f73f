#!/bin/sh
# All tests. Arguments go to pytest: sh scripts/test.sh -k refine
extras=dev
. "$(dirname "$0")/setup.sh"

exec python -m pytest -n auto "$@"
