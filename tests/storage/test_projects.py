"""Worktrees and clones of one repository are one project; two repositories are never mixed (finding R4)."""

from __future__ import annotations

import os
import shutil
import subprocess
import time

import pytest

from skillopt_sleep.model.session import Place, normalize_remote
from skillopt_sleep.storage.projects import ProjectScope

URL = "git@github.com:acme/shop.git"


def git(folder, *arguments):
    """Run git as nobody in particular."""
    isolated = {"GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_NOSYSTEM": "1", "PATH": os.environ["PATH"]}
    who = ("-c", "user.name=t", "-c", "user.email=t@example.com", "-c", "protocol.file.allow=always")
    subprocess.run(["git", "-C", str(folder), *who, *arguments], check=True, capture_output=True, env=isolated)


def make_repository(folder, remote=""):
    """A repository with one commit."""
    folder.mkdir(parents=True)
    git(folder, "init", "-q", "-b", "main")
    (folder / "packages" / "cart").mkdir(parents=True)
    (folder / "packages" / "cart" / "a.txt").write_text(folder.as_posix())
    git(folder, "add", ".")
    git(folder, "commit", "-q", "-m", "first")
    if remote:
        git(folder, "remote", "add", "origin", remote)
    return folder


@pytest.fixture
def shop(tmp_path):
    """A project without a remote."""
    return make_repository(tmp_path / "work" / "shop")


def scope(folder, *folders):
    """The scope of somebody who stands in the folder, when sessions of these folders are known."""
    return ProjectScope(str(folder), lambda: map(str, folders))


def add_worktree(repository, tree):
    """A linked worktree on a branch of its own."""
    tree.parent.mkdir(parents=True, exist_ok=True)
    git(repository, "worktree", "add", "-q", "-b", "-".join(tree.parts[-2:]).strip("."), str(tree))
    return tree


PLACES = (
    ".claude/worktrees/brave-fox",
    "../shop-feature",
    "../shop.worktrees/feature",
    "../../.codex/worktrees/1a2b/shop",
    "../../.cursor/worktrees/shop/xYz",
    "../../anywhere/at/all",
)


@pytest.mark.sample(4)
@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("state", ["present", "deleted by hand"])
def test_worktrees_are_the_project_from_every_side(shop, place, state):
    """Standing in the main checkout or in another worktree; git remembers worktrees whose folder is gone."""
    tree = add_worktree(shop, (shop / place).resolve())
    other = add_worktree(shop, shop.parent / "standing-here")
    if state != "present":
        shutil.rmtree(tree)
    for folder in (shop, other):
        assert scope(folder).holds(str(tree))
        assert scope(folder).holds(str(tree / "packages"))
        assert scope(folder).holds(str(shop))


@pytest.mark.parametrize("place", [*PLACES[:1], ".worktrees/x", *PLACES[2:5], "../../.claude-worktrees/shop/bold-owl"])
def test_worktree_that_git_has_forgotten_is_known_by_its_place(shop, place):
    """Agents remove their worktrees by git itself; the place still tells the repository."""
    tree = add_worktree(shop, (shop / place).resolve())
    git(shop, "worktree", "remove", "--force", str(tree))
    assert scope(shop, shop, tree).holds(str(tree))


@pytest.mark.parametrize("place", [*PLACES[2:5], ".claude/worktrees/gone"])
def test_repository_of_dotfiles_around_everything_takes_nothing(shop, tmp_path, place):
    """A home folder under git is above every project, and above the places of the agents."""
    home = make_repository(tmp_path / "dotfiles")
    (home / ".git").rename(tmp_path / ".git")
    gone = (shop / place).resolve()
    assert scope(shop, shop, gone).holds(str(gone))
    assert not scope(shop).holds(str(tmp_path / "notes"))


def test_what_is_left_of_a_removed_worktree_is_no_repository(shop, tmp_path):
    """Git leaves the folder when it holds ignored files."""
    left = tmp_path / ".codex" / "worktrees" / "1a2b" / "shop"
    (left / "node_modules").mkdir(parents=True)
    assert scope(shop, shop, left).holds(str(left))
    assert not scope(shop, shop, left).holds(str(left.with_name("till")))


def test_name_alone_does_not_tell_two_repositories_of_one_name_apart(shop, tmp_path):
    """Such a session is of neither, and is counted as unknown."""
    namesake = make_repository(tmp_path / "fork" / "shop")
    gone = tmp_path / ".codex" / "worktrees" / "1a2b" / "shop"
    for folder in (shop, namesake):
        assert scope(folder, shop, namesake, gone).place(str(gone)) is Place.UNKNOWN


def test_remote_of_a_codex_session_decides(tmp_path):
    """The name of the folder does not count against it, and a worktree of another remote is another project."""
    shop = make_repository(tmp_path / "shop", URL)
    gone = str(tmp_path / ".codex" / "worktrees" / "1a2b" / "shop")
    assert scope(shop).holds(gone, normalize_remote("https://token@github.com/Acme/shop"))
    assert scope(shop).holds(str(tmp_path / "gone" / "clone"), normalize_remote(URL))
    assert not scope(shop).holds(gone, normalize_remote("https://github.com/other/shop"))
    assert not scope(shop).holds(str(shop / "vendor" / "gone"), normalize_remote("https://github.com/acme/till"))


def test_clones_are_one_project(tmp_path):
    """By the address of origin, in any spelling; a clone of a local repository by that repository."""
    shop = make_repository(tmp_path / "a" / "shop", URL)
    same = make_repository(tmp_path / "b" / "shop-2", "https://github.com/acme/shop/")
    local = tmp_path / "c" / "copy"
    local.parent.mkdir()
    git(tmp_path, "clone", "-q", str(shop), str(local))
    again = tmp_path / "c" / "copy-of-copy"
    git(tmp_path, "clone", "-q", f"file://{local}", str(again))
    folders = (shop, same, local, again)
    for folder in folders:
        assert [scope(folder).holds(str(other)) for other in folders] == [True] * 4


def test_different_repositories_are_never_mixed(tmp_path):
    """Not by a common name, host, owner, template or parent folder, nor one inside of the other."""
    shop = make_repository(tmp_path / "a" / "shop", URL)
    others = [
        make_repository(tmp_path / "b" / "shop", "git@github.com:other/shop.git"),
        make_repository(tmp_path / "c" / "shop"),
        make_repository(tmp_path / "shop-till", "git@github.com:acme/till.git"),
        make_repository(shop / "vendor" / "till"),
        make_repository(shop.parent / "shop-feature"),
    ]
    for repository in (shop, others[0]):
        git(repository, "remote", "add", "template", "https://github.com/acme/template")
    for other in others:
        assert scope(shop).place(str(other)) is Place.OTHER
        assert scope(other).place(str(shop)) is Place.OTHER
    assert scope(shop).place(str(tmp_path / "a" / "shop-gone")) is Place.OTHER
    assert scope(shop).place(str(tmp_path)) is Place.OTHER


def test_submodule_is_a_project_of_its_own(shop, tmp_path):
    """Its rules are not those of the repository around it."""
    part = make_repository(tmp_path / "part")
    git(shop, "submodule", "add", "-q", str(part), "part")
    assert not scope(shop).holds(str(shop / "part"))
    assert scope(shop / "part").holds(str(part))


def test_part_of_a_repository_has_the_sessions_of_that_part(shop):
    """Somebody who names a folder below the top gets no other, in worktrees neither."""
    cart = shop / "packages" / "cart"
    tree = add_worktree(shop, shop.parent / "shop-feature")
    gone = shop / ".claude" / "worktrees" / "gone"
    here = scope(cart)
    assert [here.holds(str(at / "packages" / "cart" / "x")) for at in (shop, tree, gone)] == [True] * 3
    assert [here.holds(str(at / "packages")) for at in (shop, tree, gone)] == [False] * 3


def test_folder_without_git_is_a_project_with_all_it_contains(tmp_path):
    """Also repositories in it; and everything is in the scope of all."""
    inside = make_repository(tmp_path / "work" / "shop", URL)
    assert scope(inside.parent).holds(str(inside))
    assert scope(inside.parent).holds(str(inside.parent / "gone"))
    assert not scope(inside.parent).holds(str(tmp_path / "workshop"))
    assert ProjectScope("").holds("")


@pytest.mark.parametrize(
    "cwd", ["", "shop", "[trimmed for fixture]", "/\0", "/" + "x" * 5000, "/x" * 3000, "C:\\work\\shop", "\udc80"]
)
def test_folder_that_is_none_is_of_no_project(shop, cwd):
    """A session file may say anything."""
    assert scope(shop).place(cwd) is Place.OTHER


def test_many_folders_are_placed_quickly(shop):
    """Sessions lie in hundreds of folders, and ``status`` asks about all of them."""
    here = scope(shop)
    start = time.perf_counter()
    assert all(here.holds(str(shop / "packages" / str(number))) for number in range(500))
    assert time.perf_counter() - start < 1


@pytest.mark.parametrize("damage", ["loop", "missing", "binary", "pipe", "config"])
def test_damaged_git_files_stop_nothing(shop, tmp_path, damage):
    """What cannot be read identifies nothing, and nothing waits for it."""
    other = tmp_path / "other"
    other.mkdir()
    git_file = other / ".git"
    match damage:
        case "loop":
            git_file.symlink_to(git_file)
        case "missing":
            git_file.write_text("gitdir: /nowhere\n")
        case "binary":
            git_file.write_bytes(b"gitdir: \0\xff")
        case "pipe":
            os.mkfifo(git_file)
        case "config":
            git(other, "init", "-q")
            (git_file / "config").write_bytes(b'\xff[remote "origin"]\nurl =\n[remote "')
    assert not scope(shop).holds(str(other))
    assert not scope(other).holds(str(shop))


def test_origin_that_leads_in_a_circle_ends(tmp_path):
    """Two repositories may name each other."""
    first = make_repository(tmp_path / "first", str(tmp_path / "second"))
    second = make_repository(tmp_path / "second", "../first")
    assert scope(first).holds(str(second))


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("ssh://git@git.example.com:2222/a/shop", "ssh://git@git.example.com:3333/a/shop"),
        ("https://git.example.com/a/Shop", "https://git.example.com/a/shop"),
        ("https://github.com/a/shop", "https://gitlab.com/a/shop"),
        ("https://github.com/a/shop", "https://github.com/a/shop-till"),
    ],
)
def test_different_addresses_stay_different(one, other):
    """A port, a letter's case where it may matter, a host, a name."""
    assert normalize_remote(one) != normalize_remote(other)


@pytest.mark.parametrize(
    "url",
    [
        "https://github.com/acme/shop",
        "https://user:secret@github.com:443/acme/shop.git/",
        "ssh://git@github.com/acme/shop.git",
        "github.com:acme/shop",
    ],
)
def test_spellings_of_one_address_are_one(url):
    """None keeps a user or a password."""
    assert normalize_remote(url) == "github.com/acme/shop"
