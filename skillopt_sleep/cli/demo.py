"""``demo``: a whole night on bundled sample sessions, with a simulated agent, in a cache folder of its own."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

import click

from skillopt_sleep.cli.options import as_json, open_workspace, place_of
from skillopt_sleep.errors import DiskError, Refused

RECORDED_IN = "/home/mira/kistenlauf"
"""The project the sample sessions say they were recorded in; the demo's own folder takes its place."""
MARKER = ".skillopt-sleep-demo"
SETTINGS = "settings.toml"
"""Empty: the user's own might name a backend that costs."""


@click.command("demo")
@click.option(
    "--folder", type=click.Path(file_okay=False, path_type=Path), help="Where to play it  [default: a cache folder]."
)
@click.option("--world", default="", help="A world file for the simulated agent, instead of the bundled one.")
@as_json
def command(folder: Path | None, world: str, as_json: bool) -> None:
    """Run one whole night on the sample sessions of Mira, who keeps a small web shop.

    No key, no account, no model: the agent is simulated, everything stays on this machine, and your own sessions,
    settings and files are not touched.
    """
    import platformdirs

    from skillopt_sleep.cli.progress import watched
    from skillopt_sleep.cli.run import print_report
    from skillopt_sleep.usecases.plan import plan_night
    from skillopt_sleep.usecases.run import run_night

    home = (folder or platformdirs.user_cache_path("skillopt-sleep") / "demo").absolute()
    try:
        _prepare(home)
    except OSError as error:
        raise DiskError(f"cannot write the demo into {home}: {error.strerror}; name another --folder") from error
    click.echo(f"A night over the bundled sample sessions, in {home}. The agent is simulated.\n", err=True)
    options = {"backends.simulated.world": world} if world else {}
    workspace = open_workspace(
        {
            "project": home / "project",
            "claude_home": str(home / "claude"),
            "codex_home": str(home / "codex"),
            "data_dir": str(home / "data"),
            "backend": "simulated",
            "source": "all",
            "assignments": [f"{key}={value}" for key, value in options.items()],
        },
        env={"HOME": str(home), "SKILLOPT_SLEEP_SETTINGS": str(home / SETTINGS)},
    )
    with watched() as progress:
        report = run_night(workspace, plan_night(workspace), progress=progress)
    print_report(
        report, as_json=as_json, place=place_of({"project": workspace.project, "data_dir": str(workspace.data_dir)})
    )
    sys.exit(report.exit_code or 0)


def _prepare(home: Path) -> None:
    """Make it a fresh folder with the sample sessions; only one that an earlier demo made is ever emptied."""
    if home.exists() and any(home.iterdir()):
        if not (home / MARKER).exists():
            raise Refused(f"{home} is not empty and was not made by the demo; name another --folder")
        shutil.rmtree(home)
    (home / "project").mkdir(parents=True)
    (home / MARKER).touch()
    (home / SETTINGS).touch()
    samples = Path(__file__).parent / "samples"
    for sample in samples.rglob("*.jsonl"):
        target = home / sample.relative_to(samples)
        target.parent.mkdir(parents=True, exist_ok=True)
        text = sample.read_text(encoding="utf-8")
        target.write_text(text.replace(RECORDED_IN, str(home / "project")), encoding="utf-8")
