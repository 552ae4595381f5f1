"""Boundaries of adoption, staging and the ledger that a mutation run found untested."""

from __future__ import annotations

import pytest

from skillopt_sleep.errors import Refused
from skillopt_sleep.storage.adoption import adopt, revert
from skillopt_sleep.storage.ledger import open_training_folder
from tests.storage.proposing import SKILL, Project, edit


@pytest.fixture
def project(tmp_path):
    """A project with a memory file and two edits proposed, one for it and one for a new skill."""
    project = Project(tmp_path)
    project.memory.write_bytes(b"# Mine\n")
    project.stage("n1", edit("append", "Use tabs."), edit("append", "Total first.", kind=SKILL))
    return project


def test_training_folder_is_for_this_user_alone(tmp_path):
    """A run's folder, and every folder in it, can be read by its owner only."""
    with open_training_folder(tmp_path / "run") as folder:
        folder.write("epochs/1.json", b"{}")
    for path in (tmp_path / "run", tmp_path / "run" / "epochs"):
        assert path.stat().st_mode & 0o777 == 0o700


def test_proposal_that_was_adopted_does_not_wait(project):
    """A proposal waits until it is adopted."""
    staging = project.staging
    assert [proposal.manifest.night for proposal in staging.waiting()] == ["n1"]
    adopt(staging, "n1")
    assert staging.waiting() == ()


def test_proposal_for_a_file_that_was_changed_does_not_wait(project):
    """A proposal waits as long as every live file is what the night read."""
    project.memory.write_bytes(b"# Changed\n")
    assert project.staging.waiting() == ()


def test_edit_that_is_adopted_already(project):
    """Adopting it again is refused by its name, and the rest of the night can still be adopted."""
    staging = project.staging
    first, second = (edit for document in staging.verified("n1").manifest.documents for edit in document.edits)
    adopt(staging, "n1", only={first.id})
    with pytest.raises(Refused, match=f"edit {first.id} of night n1 is adopted already"):
        adopt(staging, "n1", only={first.id})
    with pytest.raises(Refused, match="night n1 is adopted already"):
        adopt(staging, "n1")
    adopt(staging, "n1", only={second.id})
    assert project.memory.read_bytes() != b"# Mine\n"
    assert project.skill.exists()
    revert(staging, night="n1")
    assert project.memory.read_bytes() == b"# Mine\n"
    assert not project.skill.exists()


def test_reverting_keeps_the_mode_of_a_file(project):
    """A file keeps the permissions its owner gave it, through adoption and back."""
    project.memory.chmod(0o640)
    adopt(project.staging, "n1")
    assert project.memory.stat().st_mode & 0o777 == 0o640
    revert(project.staging, night="n1")
    assert project.memory.stat().st_mode & 0o777 == 0o640


def test_new_allowance_counts_the_sittings_of_a_run(tmp_path):
    """A run starts with its first sitting, and every allowance begins the next one."""
    with open_training_folder(tmp_path / "run") as folder:
        assert folder.kept("sitting") is None
        folder.new_allowance()
        assert folder.kept("sitting") == b"2"
        folder.new_allowance()
        assert folder.kept("sitting") == b"3"
