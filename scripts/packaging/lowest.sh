#!/bin/sh
# Create .venv with the lowest versions that pyproject.toml names, to run the tests with them:
#   sh scripts/packaging/lowest.sh && sh scripts/test.sh --fast
# uv finds versions that fit together; pip gives up on some of them.
set -eu
cd "$(dirname "$0")/../.."
python=${PYTHON:-python3}
"$python" -m venv --clear .venv
.venv/bin/python -m pip install --quiet --disable-pip-version-check uv
.venv/bin/python scripts/packaging/lowest.py >.venv/lowest.txt
.venv/bin/uv pip install --quiet --python .venv/bin/python --editable ".[dev]" \
    --constraint .venv/lowest.txt
touch .venv/installed-dev
