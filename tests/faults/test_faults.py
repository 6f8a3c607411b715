"""Whatever is changed in the files of a stopped node: it serves equally, mends itself, or stops and says what to do."""

from pathlib import Path

import pytest

from tests.faults import real
from tests.faults.campaign import Outcome, play, table, trial
from tests.faults.cluster import Image, prepare
from tests.faults.damage import Damage, campaign, edges, kind_of


def told(outcomes: list[Outcome]) -> str:
    """The silent ones, and the table."""
    silent = [f"{outcome.damage}: {outcome.trouble}; {outcome.told}" for outcome in outcomes if outcome.trouble]
    return "\n".join([*silent, table(outcomes)])


def silent(outcomes: list[Outcome]) -> list[Outcome]:
    """Those that nobody was told of."""
    return [outcome for outcome in outcomes if outcome.verdict == "silent"]


@pytest.fixture(scope="module")
def image(tmp_path_factory: pytest.TempPathFactory) -> Image:
    """Of a killed node whose journal is trimmed."""
    return prepare(tmp_path_factory.mktemp("faults"), retain=20, killed=True)


def test_every_file_of_a_data_directory_can_be_hurt(image: Image) -> None:
    """A further kind of file is drawn as well; left out is only what says nothing: locks, and what git is told."""
    files = {str(path.relative_to(image.folder)) for path in image.folder.rglob("*") if path.is_file()}
    assert {file for file in files if not kind_of(file)} <= {"lock", ".gitignore", "store/LOCK"}


def test_a_slice_of_the_campaign(image: Image, tmp_path: Path) -> None:
    """Six flips, a cut and a deletion."""
    outcomes = [trial(image, damage, tmp_path / "work") for damage in campaign(image.folder, 6, 2, seed=1)]
    assert len(outcomes) == 8
    assert not silent(outcomes), told(outcomes)


def test_a_journal_cut_at_a_records_edge_is_noticed(image: Image, tmp_path: Path) -> None:
    """As after a kill, but below what the store knows was durable: at the first edge, the last one, and between."""
    cuts = edges(image.folder)
    assert len(cuts) > 20
    outcomes = [trial(image, cut, tmp_path / "work") for cut in (cuts[0], cuts[len(cuts) // 2], cuts[-1])]
    assert {outcome.verdict for outcome in outcomes} == {"mended itself"}, told(outcomes)
    assert "the store knows" in outcomes[-1].told[0]


@pytest.mark.parametrize("folder", ["store", "journal"])
def test_a_whole_folder_may_be_gone(image: Image, tmp_path: Path, folder: str) -> None:
    """The node mends itself with what is left."""
    outcome = trial(image, Damage(folder, folder, "deletion", 0), tmp_path / "work")
    assert outcome.verdict == "mended itself", outcome


@pytest.mark.slow
@pytest.mark.timeout(800)
def test_three_hundred_flips_and_a_hundred_cuts_and_deletions(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The whole campaign: the others are cuts and deletions. Every verdict but *silent* is met."""
    outcomes = play(tmp_path, 300, 100, seed=1000)
    with capsys.disabled():
        print("\n" + table(outcomes))
    assert len(outcomes) == 400
    assert not silent(outcomes), told(outcomes)
    assert {outcome.verdict for outcome in outcomes} == {"served equally", "mended itself", "stopped, remedy run"}


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_thirty_on_real_nodes(tmp_path: Path) -> None:
    """Twenty-two flips, four cuts and four deletions, one after the other, on one node of a running cluster."""
    outcomes = real.play(tmp_path, 22, 8, seed=1)
    assert len(outcomes) == 30
    assert not silent(outcomes), told(outcomes)
