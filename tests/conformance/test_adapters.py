"""Every adapter there is, found by its name alone, keeps what its port promises."""

from __future__ import annotations

import subprocess
import sys
import typing
from pathlib import Path

import msgspec
import pytest

from skillopt_sleep.agents import find_agent
from skillopt_sleep.errors import BackendError, SettingsError, UsageError
from skillopt_sleep.model.call import Health, Prompt, Reply
from skillopt_sleep.model.ports import Backend, Judge, Source
from skillopt_sleep.model.session import SessionFile
from skillopt_sleep.model.task import _BUILT_IN
from skillopt_sleep.registry import ADAPTERS, Kind, build, find, find_reference, names, require

PORTS = {Kind.SOURCE: Source, Kind.BACKEND: Backend, Kind.JUDGE: Judge}
EVERY = [(kind, name) for kind in ADAPTERS for name in names(kind)]


def every(kind):
    return pytest.mark.parametrize("name", names(kind))


@pytest.mark.parametrize(("kind", "name"), EVERY, ids=str)
def test_adapter_is_found_and_built_with_its_defaults(kind, name):
    """No option is required, its name is that of its file, and it has all that its port asks for."""
    adapter = build(kind, name, {})
    assert type(adapter) is find(kind, name)
    assert adapter.name == name
    for member in typing._get_protocol_attrs(PORTS[kind]):
        assert hasattr(adapter, member), member
    assert find(kind, name).__doc__


@pytest.mark.parametrize(("kind", "name"), EVERY, ids=str)
def test_adapter_refuses_an_option_it_does_not_have(kind, name):
    """The message names the table, the option and those there are."""
    with pytest.raises(SettingsError, match=rf"\[{kind}\.{name}\] has no option 'no_such'"):
        build(kind, name, {"no_such": 1})


def test_every_file_of_a_kind_is_an_adapter_or_says_that_it_is_none():
    """A file that forgot its last line would be an adapter nobody finds: each has the line, or serves another file."""
    for kind in Kind:
        for path in kind.folder.glob("[!_]*.py"):
            text = path.read_text(encoding="utf-8")
            assert (path.stem in names(kind)) == ("\nPLUGIN = " in text), path


def test_listing_names_imports_none_of_them():
    """A typo must not cost the import of every API library there is."""
    script = (
        "import sys; from skillopt_sleep.registry import Kind, names\n"
        "for kind in Kind: assert names(kind)\n"
        "bad = [m for m in sys.modules if m.startswith('skillopt_sleep.') and m.split('.')[1] in set(Kind)]\n"
        "assert not bad, bad"
    )
    subprocess.run([sys.executable, "-c", script], check=True)


def test_unknown_name_is_answered_with_the_known_ones():
    """And with the nearest."""
    with pytest.raises(UsageError, match=r"no backend 'cluade'; known are .*codex.*; did you mean 'claude'\?"):
        find(Kind.BACKEND, "cluade")


@pytest.mark.parametrize("name", names(Kind.AGENT))
def test_agent_names_adapters_and_files_that_exist(name):
    """Its source and backend are registered, its home follows from the environment, and its files are relative."""
    agent = find_agent(name)
    assert agent.name == name
    assert agent.label
    require(Kind.SOURCE, agent.source)
    require(Kind.BACKEND, agent.backend)
    assert Path("/home/mira") in agent.home({"HOME": "/home/mira"}).parents
    assert not Path(agent.skills).is_absolute()
    assert agent.memory_file(Path("/p"), None) == Path("/p") / agent.memory


def places(name, folder):
    """The home of a source, under every name its field may have; it takes the one it knows."""
    return typing.cast("Source", build(Kind.SOURCE, name, {}, homes=(str(folder),), home=str(folder)))


@every(Kind.SOURCE)
def test_source_of_nobody_yields_nothing(name, tmp_path):
    """A home that is empty, absent or no folder has no sessions, and that is no error."""
    (tmp_path / "empty").mkdir()
    (tmp_path / "file").touch()
    for home in ("empty", "absent", "file"):
        assert list(places(name, tmp_path / home).files(lambda _: None)) == []
    assert list(build(Kind.SOURCE, name, {}).files(lambda _: None)) == []


@every(Kind.SOURCE)
@pytest.mark.parametrize(
    "content",
    [b"", b"\n", b"null\n[]\n", b"{", b"\xff\xfe\x00\n", b'{"type":"user"}\n' * 3, b"[" * 100_000, b'"\\ud800"\n'],
    ids=["empty", "blank", "no objects", "cut", "binary", "hollow", "deep", "surrogate"],
)
def test_source_reads_anything_and_raises_nothing(name, tmp_path, content):
    """What is no session of a person is none; what is wrong is reported."""
    path = tmp_path / "session.jsonl"
    path.write_bytes(content)
    file = SessionFile(path=str(path), size=len(content), mtime_ns=1)
    skipped = []
    assert places(name, tmp_path).read(file, skipped.append) is None
    assert all(skip.path == str(path) and skip.reason for skip in skipped)


@every(Kind.SOURCE)
def test_source_reports_a_file_that_vanished(name, tmp_path):
    """It is skipped as a whole, by name."""
    path = str(tmp_path / "gone.jsonl")
    skipped = []
    file = SessionFile(path=path, size=1, mtime_ns=1)
    assert places(name, tmp_path).read(file, skipped.append) is None
    assert [(skip.path, skip.line) for skip in skipped] == [(path, 0)]


@every(Kind.BACKEND)
def test_backend_on_a_bare_machine_says_so(name, tmp_path):
    """With an empty PATH and home the probe raises nothing; a backend that is not ready says what to do."""
    backend = build(Kind.BACKEND, name, {}, env={"PATH": str(tmp_path), "HOME": str(tmp_path)})
    health = backend.probe()
    assert isinstance(health, Health)
    assert health.ready or health.detail
    assert "\n" not in health.detail
    assert isinstance(backend.model, str)
    assert backend.sees
    backend.close()


def answer(backend):
    """What comes of a call: the reply, or the error."""
    try:
        return backend.complete(Prompt(system="Be brief.", user="Say hello."))
    except BackendError as error:
        return error
    finally:
        backend.close()


@every(Kind.BACKEND)
def test_backend_answers_or_says_why_not(name, tmp_path):
    """A call gives a reply with text, or one of the errors of backends in a line; never an empty or a foreign one."""
    got = answer(build(Kind.BACKEND, name, {}, env={"PATH": str(tmp_path), "HOME": str(tmp_path)}))
    if isinstance(got, Reply):
        assert got.text
    else:
        assert len(str(got).splitlines()) == 1


@every(Kind.BACKEND)
def test_backend_is_closed_as_often_as_one_likes(name, tmp_path):
    """Closing is idempotent, before and after use, and what is closed answers nothing more."""
    backend = build(Kind.BACKEND, name, {}, env={"PATH": str(tmp_path), "HOME": str(tmp_path)})
    backend.close()
    backend.close()
    with pytest.raises(BackendError):
        backend.complete(Prompt(system="", user="Still there?"))
    backend.close()
    assert list(tmp_path.iterdir()) == []


@every(Kind.JUDGE)
def test_judge_declares_the_reference_it_scores(name):
    """Its reference is a frozen Struct stored under the judge's name, found without building the judge."""
    reference = find_reference(name)
    assert reference is build(Kind.JUDGE, name, {}).reference
    assert reference.__struct_config__.frozen
    assert {field.encode_name for field in msgspec.structs.fields(reference)}.isdisjoint({"kind"})


def test_every_reference_that_mining_writes_has_its_judge():
    """The built-in judges and the built-in references are the same set."""
    assert set(_BUILT_IN) <= set(names(Kind.JUDGE))
    assert all(find_reference(kind) is form for kind, form in _BUILT_IN.items())
