"""``run --for claude,codex``: what is proven with one agent lands for both, and every command knows it once."""

from __future__ import annotations

import json
from pathlib import Path

from tests.fakes.home import make_person


def test_rule_for_two_agents_is_one_rule_to_every_command(cli, tmp_path):
    """Adopted, explained, watched, and reverted byte for byte in the files of both."""
    mira = make_person(tmp_path / "mira", rules=1, tasks_per_rule=18)
    theirs = mira.project / "AGENTS.md"
    theirs.write_bytes(b"# Ours\r\n\r\nBe kind.")
    report = cli(*mira.arguments("run", "--json", "--for=claude,codex")).json
    assert [change["untried"] for change in report["documents"]] == [
        "",
        "proven with the simulated backend, not tried with Codex",
    ]
    assert "AGENTS.md: proven with the simulated backend, not tried with Codex" in report["notes"]
    page = Path(report["proposal"], "..", "report.md").read_text()
    assert "proven with the simulated backend, not tried with Codex" in page
    (rule,) = (applied["edit"] for applied in report["applied_edits"])

    assert len(json.loads(cli("adopt", "--json", *mira.places).out)) == 2
    for file in (mira.project / "CLAUDE.md", theirs):
        assert file.read_text().count(rule["text"]) == 1
    assert report["night"] in cli("status", *mira.places).out
    assert "adopted and live" in cli("why", rule["id"], *mira.places).out
    watched = cli("watch", "--json", *mira.places).json
    assert [found["rule"]["path"] for found in watched] == [f"{mira.project}/CLAUDE.md, {theirs}"]

    assert cli("revert", *mira.places).code == 0
    assert theirs.read_bytes() == b"# Ours\r\n\r\nBe kind."
    assert not (mira.project / "CLAUDE.md").exists()


def test_waiting_rule_lands_for_an_agent_that_is_named_later(cli, tmp_path):
    """It is proposed again for both, at once and without a call; the night after has nothing to add."""
    mira = make_person(tmp_path / "mira", rules=1, tasks_per_rule=18)
    first = cli(*mira.arguments("run", "--json")).json
    assert [Path(change["path"]).name for change in first["documents"]] == ["CLAUDE.md"]
    both = cli(*mira.arguments("run", "--json", "--for=claude,codex")).json
    assert [Path(change["path"]).name for change in both["documents"]] == ["CLAUDE.md", "AGENTS.md"]
    assert (both["spend"]["calls"], both["account"]["tried"]) == (0, first["account"]["tried"])
    assert cli(*mira.arguments("run", "--json", "--for=claude,codex")).json["documents"] == []
    assert len(cli("adopt", both["night"], "--json", *mira.places).json) == 2


def test_agent_that_is_not_known_is_named_with_the_known_ones(cli, tmp_path):
    """A usage error, before anything is read or paid for."""
    mira = make_person(tmp_path / "mira", rules=1, tasks_per_rule=2, sessions=False)
    done = cli(*mira.arguments("run", "--for=claude,kodex"))
    assert done.code == 2
    assert "kodex" in done.refusal
    assert "claude, codex" in done.refusal
