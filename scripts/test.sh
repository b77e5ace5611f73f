#!/bin/sh
# All tests. Arguments go to pytest: sh scripts/test.sh -k refine
extras=dev
. "$(dirname "$0")/setup.sh"

# Each worker begins with a half of its own: what tests of a module share is made by one of them.
exec python -m pytest -n auto --dist worksteal "$@"
