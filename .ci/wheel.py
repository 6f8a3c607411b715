"""Build the wheel and use it as an operator would: in an empty environment with a node's locked packages only.

Rules: the wheel must hold all three packages and the schemas, install without Java, Spark or Faust, print its help, and
serve: one node answers a question and ends with status 0 on SIGTERM.
"""

import json
import os
import selectors
import signal
import subprocess
import sys
import tempfile
import venv
import zipfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
HOLDS = (
    "quorate/cli/__init__.py",
    "quorate/demo/__init__.py",
    "quorate/node/__init__.py",
    "quorate_projections/__init__.py",
    "quorate_spark/__init__.py",
    "quorate/_schemas/",
    "quorate/leaf/leaf.c",
    "quorate_spark/dashboard/assets/index.html",
)
READY_S = 60


def run(*command: str | Path) -> str:
    """Its output; ends everything if it fails."""
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    done = subprocess.run(
        [str(part) for part in command], capture_output=True, text=True, check=False, env=environment, cwd="/"
    )
    if done.returncode != 0:
        sys.exit(f"{' '.join(map(str, command))}: {done.returncode}\n{done.stdout[-2000:]}{done.stderr[-2000:]}")
    return done.stdout


def build(folder: Path) -> Path:
    """The wheel, whole."""
    pip = (sys.executable, "-m", "pip", "wheel", "--quiet", "--disable-pip-version-check", "--no-deps")
    run(*pip, "--no-build-isolation", "--wheel-dir", folder, ROOT)
    wheel = next(folder.glob("quorate-*.whl"))
    names = zipfile.ZipFile(wheel).namelist()
    missing = [part for part in HOLDS if not any(name.startswith(part) for name in names)]
    if missing:
        sys.exit(f"the wheel lacks {', '.join(missing)}")
    return wheel


def install(wheel: Path, home: Path) -> Path:
    """A new environment with a node's packages and the wheel; its bin."""
    venv.create(home, with_pip=True)
    pip = (home / "bin/python", "-m", "pip", "install", "--quiet", "--disable-pip-version-check")
    # What has no wheel is built with the packages of the build lock; nothing else reaches outside the locks.
    run(*pip, "--require-hashes", "-r", ROOT / "requirements/build.txt")
    run(*pip, "--no-build-isolation", "--require-hashes", "-r", ROOT / "requirements/node.txt")
    run(*pip, "--no-deps", wheel)
    return home / "bin"


def serve(program: Path, folder: Path) -> None:
    """One node: ready, asked, ended."""
    words = [
        str(program),
        "up",
        "--nodes",
        "1",
        "--data-dir",
        str(folder),
        "--base-port",
        str(28_000 + os.getpid() % 3000),
    ]
    process = subprocess.Popen(words, stdout=subprocess.PIPE, cwd="/")
    assert process.stdout is not None
    try:
        with selectors.DefaultSelector() as selector:
            selector.register(process.stdout, selectors.EVENT_READ)
            line = process.stdout.readline() if selector.select(READY_S) else b""
        if not line:
            sys.exit("the installed node was not ready")
        node = json.loads(line)["nodes"][0]["http"]
        print(run(program, "status", "--node", node).splitlines()[0])
        process.send_signal(signal.SIGTERM)
        if process.wait(30) != 0:
            sys.exit(f"the installed node ended with {process.returncode}")
    finally:
        if process.poll() is None:
            process.kill()
            process.wait()


def main() -> None:
    """All of it, in a folder that goes away."""
    with tempfile.TemporaryDirectory() as folder:
        home = Path(folder)
        program = install(build(home), home / "venv") / "quorate"
        if "mirror" not in run(program, "--help"):
            sys.exit("the commands of the other packages are not registered")
        serve(program, home / "cluster")


if __name__ == "__main__":
    main()
