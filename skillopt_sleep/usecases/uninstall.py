"""Taking this program's traces away: looked at as a whole before anything goes, and said as it goes.

What in a folder is ours by its name, so that nothing else is ever deleted with it.
"""

from __future__ import annotations

import contextlib
import re
import shutil
from collections.abc import Callable, Collection, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from skillopt_sleep.errors import DiskError, Refused, SleepError
from skillopt_sleep.settings import settings_path
from skillopt_sleep.storage.files import remove
from skillopt_sleep.storage.lock import lock_daemon, lock_night
from skillopt_sleep.usecases.plugins import MARKET_FOLDER, agents_with_plugin, is_market, uninstall_plugin
from skillopt_sleep.usecases.upkeep import announce

if TYPE_CHECKING:
    from skillopt_sleep.agents import CodingAgent
    from skillopt_sleep.storage.live_files import Adoption
    from skillopt_sleep.usecases.workspace import Workspace

OWN_FILE = re.compile(
    r"sleep\.db\S*|(schedule|daemon|laid)\.json|daemon\.log(\.\d+)?|(night|daemon|adopt)\.(lock|held)"
    r"|handoff\.key|waiting\.txt|\.\S+\.skillopt-\S+|\.skillopt-sleep-room-\S+"
)
"""Files of the data folder, temporary ones among them."""
UNMISTAKABLE = re.compile(r"sleep\.db|laid\.json|handoff\.key|(night|daemon|adopt)\.lock")
"""Without one of these, or our marketplace, a folder is somebody else's, whatever its files are called."""
OWN_WITHIN = {
    "children": re.compile(r"[0-9a-f]{12}\.jsonl\S*"),
    "evals": re.compile(r"[0-9a-f]{16,64}"),
}
"""Folders of the data folder, and what in them is ours."""


def own_data(folder: Path) -> tuple[Path, ...]:
    """What of a data folder is ours; a folder among it is ours with all that is in it. Raises ``DiskError``."""
    there = _entries(folder)
    if not is_market(folder / MARKET_FOLDER) and not any(UNMISTAKABLE.fullmatch(path.name) for path in there):
        return ()
    found = [path for path in there if path.is_file() and OWN_FILE.fullmatch(path.name)]
    for name, own in OWN_WITHIN.items():
        found += [path for path in _entries(folder / name) if own.fullmatch(path.name)]
    found += [path for path in (folder / MARKET_FOLDER, folder / ".market-new") if is_market(path)]
    return tuple(found)


def own_reports(folder: Path) -> tuple[Path, ...]:
    """The same of the ``.skillopt-sleep`` in a project. Raises ``DiskError``."""
    return tuple(path for path in _entries(folder) if path.name in {".gitignore", "nights", "handoff"})


def clear(folder: Path, own: Collection[Path]) -> bool:
    """Delete what is ours, and each folder that is empty then; whether all of it is gone. Raises ``DiskError``."""
    for path in own:
        try:
            if path.is_dir() and not path.is_symlink():
                shutil.rmtree(path)
        except OSError as error:
            raise DiskError(f"cannot delete {path}: {error.strerror}") from error
        else:
            if path.is_symlink() or path.is_file():
                remove(path)
    for each in (*(folder / name for name in OWN_WITHIN), folder):
        _drop_empty(each)
    return not folder.exists()


def _drop_empty(folder: Path) -> None:
    try:
        if folder.is_dir() and not folder.is_symlink() and not any(folder.iterdir()):
            folder.rmdir()
    except OSError as error:
        raise DiskError(f"cannot delete {folder}: {error.strerror}") from error


def _entries(folder: Path) -> list[Path]:
    """What is in a folder; nothing behind a link."""
    try:
        return [] if folder.is_symlink() or not folder.is_dir() else sorted(folder.iterdir())
    except OSError as error:
        raise DiskError(f"cannot read {folder}: {error.strerror}") from error


MARKET_NEEDED = frozenset({"market", "laid.json"})
"""What stays of the data while an agent may still run the plugin from it."""


class Removal:
    """One uninstallation. ``failed`` collects what could not be done.

    ``unschedule`` takes the schedule away: whether there was one, and what was not looked at.
    """

    def __init__(
        self,
        workspace: Workspace,
        unschedule: Callable[[Workspace], tuple[bool, tuple[str, ...]]],
        *,
        rules: bool,
        data: bool,
    ) -> None:
        self.failed: list[SleepError] = []
        self._workspace = workspace
        self._unschedule = unschedule
        self._rules = rules
        self._data = data
        self._stays: list[str] = []
        self._touched: list[CodingAgent] = []
        self._live: tuple[Adoption, ...] = ()
        self._reports: tuple[Path, ...] = ()
        self._needed = False
        """Whether rules that are live still need the data."""
        self._had_data = workspace.data_dir.exists()

    @property
    def has_data(self) -> bool:
        """Whether there is anything to be deleted."""
        return bool(self._reports or own_data(self._workspace.data_dir))

    @contextlib.contextmanager
    def ready(self) -> Iterator[None]:
        """Hold what must not begin meanwhile, having looked at all that could stand in the way.

        Raises ``NightRunning`` where data is to go and a night or a daemon uses it, ``Refused`` where the data is a
        link or live rules need it, and ``DiskError`` where rules or data are to go and the database cannot be read.
        """
        folder = self._workspace.data_dir
        with contextlib.ExitStack() as held:
            if self._data and folder.is_symlink():
                raise Refused(f"{folder} is a link, and links are not followed; name what it leads to with --data-dir")
            if self._data and own_data(folder):
                held.enter_context(lock_night(folder))
                held.enter_context(lock_daemon(folder))
            self._look()
            if self._data and self._live and not self._rules:
                raise Refused(
                    f"{len(self._live)} adopted rules are live, and only the data knows how to undo them; add --rules,"
                    " or keep the data; nothing was taken away"
                )
            yield

    def steps(self) -> Iterator[str]:
        """Take everything away that was asked for; what was done, a line each. A failure ends its own step only."""
        if self._rules:
            yield from self._tried("the rules", self._take_rules())
        yield from self._tried("the schedule", self._take_schedule())
        plugins = len(self.failed)
        for agent in agents_with_plugin():
            for line in self._tried(f"the plugin of {agent.name}", uninstall_plugin(self._workspace, agent)):
                self._touched += [agent] if agent not in self._touched else []
                yield line
        if self._data:
            yield from self._tried("the data", self._take_data(plugin_stays=len(self.failed) > plugins))

    def kept(self) -> Iterator[str]:
        """What is still there, each with the way to remove it."""
        workspace = self._workspace
        yield from self._stays
        if self._live and not self._rules:
            yield "the adopted rules: skillopt-sleep uninstall --rules"
        if own_data(workspace.data_dir):
            yield f"what nights have learnt, {workspace.data_dir}: skillopt-sleep uninstall --data"
        if not self._data or self._needed:
            yield from (f"reports, {folder}: skillopt-sleep uninstall --data" for folder in self._reports)
        demo = _demo()
        if demo.exists():
            yield f"what `demo` has played, {demo}: delete the folder"
        for agent in self._touched:
            yield f"{agent.name}'s own settings and records, {agent.home(workspace.env)}: as {agent.name} leaves them"
        settings = settings_path(workspace.env)
        if settings.exists():
            yield f"your settings, {settings}: delete the file"
        above = workspace.data_dir.parent
        if self._had_data and not workspace.data_dir.exists() and above.is_dir() and not any(above.iterdir()):
            yield f"an empty folder, {above}: it may have been there before"
        yield "the program itself: uv tool, pipx or pip, whichever installed it, with: uninstall skillopt-sleep"

    def _look(self) -> None:
        """What the database knows: live rules, and the folder of ours in every project in which nights have run."""
        from skillopt_sleep.storage.live_files import read_adoptions

        if not (self._workspace.data_dir / "sleep.db").exists():
            return
        try:
            self._live = read_adoptions(self._workspace.database)
            rows = self._workspace.database.rows("SELECT DISTINCT project FROM nights ORDER BY project")
        except DiskError as error:
            if self._rules or self._data:
                raise
            self._stays.append(f"adopted rules, if there are any, and reports in projects: {error}")
            return
        self._reports = tuple(folder for row in rows if (folder := Path(row["project"]) / ".skillopt-sleep").is_dir())

    def _tried(self, what: str, lines: Iterator[str]) -> Iterator[str]:
        try:
            yield from lines
        except SleepError as error:
            self.failed.append(error)
            yield f"{what} could not be taken away: {error}"

    def _take_schedule(self) -> Iterator[str]:
        found, unseen = self._unschedule(self._workspace)
        if found:
            yield "took the schedule away"
        yield from unseen

    def _take_rules(self) -> Iterator[str]:
        """Revert night after night, the latest first; what cannot be reverted stays, and is named with the reason."""
        from skillopt_sleep.storage.adoption import revert

        for night in dict.fromkeys(each.night for each in reversed(self._live)):
            try:
                changes = revert(self._workspace.staging, night=night)
            except SleepError as error:
                self._leave(night, error)
                continue
            yield from (f"reverted night {night}: {change.path}" for change in changes)
        if self._live:
            announce(self._workspace)

    def _leave(self, night: str, error: SleepError) -> None:
        """Rules of a project that is gone need no data any more: nothing here could ever undo them."""
        files = {each.path: each.project for each in self._live if each.night == night}
        gone = sorted({project for project in files.values() if not Path(project).is_dir()})
        if gone:
            self._stays.append(
                f"the rules of night {night} cannot be reverted, for their project is gone, moved or deleted:"
                f" {', '.join(gone)}; where these files are now, delete our block by hand: {', '.join(sorted(files))}"
            )
        else:
            self._needed = True
            self._stays.append(f"the rules of night {night}: {error}")

    def _take_data(self, *, plugin_stays: bool) -> Iterator[str]:
        if self._needed:
            raise Refused("rules that could not be reverted are live, and only the data knows how to undo them")
        folder = self._workspace.data_dir
        own = tuple(each for each in own_data(folder) if not (plugin_stays and each.name in MARKET_NEEDED))
        if own:
            self._workspace.database.close()
        parts = {each: own_reports(each) for each in self._reports}
        for each, ours in (parts | ({folder: own} if own else {})).items():
            if each.is_symlink():
                self._stays.append(f"{each} is a link, and links are not followed; delete what it leads to yourself")
                continue
            whole = clear(each, ours)
            yield f"deleted {each}" if whole else f"deleted what is ours in {each}; the rest is not ours, and stays"
        if not own and folder.exists():
            self._stays.append(f"{folder}: nothing in it is known to be this program's")


def _demo() -> Path:
    import platformdirs

    return platformdirs.user_cache_path("skillopt-sleep") / "demo"
