# Sourced by the other scripts: create an environment in .venv with the project and the extras in the
# variable `extras`. `set_up EXTRAS` installs more. Reinstalls only if pyproject.toml has changed;
# with the extra dev, which includes all others that the scripts use, nothing more is installed.
set -eu
cd "$(dirname "$0")/.."
python=${PYTHON:-python3}
if ! "$python" -c 'import sys; sys.exit(sys.version_info < (3, 11))'; then
    echo "Python 3.11 or newer is required; set PYTHON=/path/to/python3" >&2
    exit 1
fi
current() { [ -e "$1" ] && ! [ pyproject.toml -nt "$1" ]; }
set_up() {
    stamp=".venv/installed-${1:-plain}"
    if ! current "$stamp" && ! current .venv/installed-dev; then
        echo "installing into .venv ..." >&2
        [ -x .venv/bin/python ] || "$python" -m venv .venv
        .venv/bin/python -m pip install --quiet --disable-pip-version-check \
            --editable ".${1:+[$1]}"
        touch "$stamp"
    fi
}
set_up "${extras:-}"
PATH="$PWD/.venv/bin:$PATH"
